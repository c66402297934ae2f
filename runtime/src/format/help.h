// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of --help, for the programs whose options CLI11 reads.
#ifndef TRAINRT_FORMAT_HELP_H
#define TRAINRT_FORMAT_HELP_H

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>
#include <utility>

namespace trainrt::run {

/// Options by their groups, in the order in which they were added, in lines of at most 100 columns.
/// The name of a value is the option's type_name; of a flag it is what may follow: "[=FILE]". A
/// flag --no-NAME without a description is told with --NAME.
class HelpFormatter : public CLI::FormatterBase {
public:
  static constexpr size_t width = 100, column = 30;

  /// `head`: what stands above the options.
  explicit HelpFormatter(std::string head) : head(std::move(head)) {}

  std::string make_help(const CLI::App *app, std::string, CLI::AppFormatMode) const override {
    std::string text = head;
    for (const std::string &group : app->get_groups()) {
      std::string options;
      for (const CLI::Option *option :
           app->get_options([&](const CLI::Option *o) { return o->get_group() == group; }))
        if (option->nonpositional() && !isOtherSide(*app, *option))
          options += describe(*app, *option);
      if (!group.empty() && !options.empty())
        text += "\n" + group + ":\n" + options;
    }
    return text;
  }

private:
  /// Of a pair --NAME, --no-NAME the second.
  static bool isOtherSide(const CLI::App &app, const CLI::Option &option) {
    const std::string name = option.get_lnames().empty() ? "" : option.get_lnames().front();
    return option.get_description().empty() && name.rfind("no-", 0) == 0 &&
           app.get_option_no_throw("--" + name.substr(3));
  }

  static std::string describe(const CLI::App &app, const CLI::Option &option) {
    std::string names;
    for (const std::string &name : option.get_snames())
      names += (names.empty() ? "-" : ", -") + name;
    for (const std::string &name : option.get_lnames()) {
      const CLI::Option *other = app.get_option_no_throw("--no-" + name);
      const bool isPair = other && other->get_description().empty();
      names += (names.empty() ? "--" : ", --") + (isPair ? "[no-]" + name : name);
    }
    // Behind a colon are the values that a check accepts.
    const std::string type = option.get_type_name();
    const std::string value = type.substr(0, type.find(':'));
    const bool isFlag = option.get_items_expected_min() == 0;
    names += value.empty() || (isFlag && value[0] != '[') ? "" : isFlag ? value : " " + value;
    return wrap("  " + names, option.get_description());
  }

  static std::string wrap(std::string line, const std::string &description) {
    std::string text;
    std::istringstream words(description);
    bool begins = true; // of a line's description
    for (std::string word; words >> word; begins = false) {
      // Two spaces at least are between a name and what it does: one may be before a value.
      if (line.size() + 1 + word.size() > width ||
          (text.empty() && begins && line.size() + 2 > column)) {
        text += line + "\n";
        line.clear();
        begins = true;
      }
      if (begins)
        line.resize(std::max(line.size(), column), ' ');
      else
        line += ' ';
      line += word;
    }
    return text + line + "\n";
  }

  const std::string head;
};

} // namespace trainrt::run

#endif // TRAINRT_FORMAT_HELP_H
