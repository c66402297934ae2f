// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options about one subject: they are declared in a group of the help, and read together.
#ifndef TRAINC_LIB_DRIVER_OPTIONS_OPTIONGROUP_H
#define TRAINC_LIB_DRIVER_OPTIONS_OPTIONGROUP_H

#include "trainc/Driver/Driver.h"
#include <CLI/CLI.hpp>

namespace trainc {

/// An option and its opposite.
struct Switch {
  bool on = false, off = false;
  /// What is said last has no say: both at once are refused.
  bool value(bool otherwise) const { return on || (otherwise && !off); }
};

/// A group declares its options when it is made; what is wrong with their values is thrown when
/// they are read, as CLI11 does.
class OptionGroup {
protected:
  OptionGroup(CLI::App &app, CompileOptions &options) : app(app), options(options) {}

  /// The title in the help of what is added next.
  void group(const std::string &title) { app.option_defaults()->group(title); }
  CLI::Option *add(const std::string &name, auto &value, const std::string &type,
                   const std::string &text) {
    return app.add_option(name, value, text)->type_name(type);
  }
  void addSwitch(const std::string &name, Switch &value, const std::string &text) {
    CLI::Option *on = app.add_flag("--" + name, value.on, text);
    app.add_flag("--no-" + name, value.off, "")->excludes(on);
  }
  /// Whether the command line has the option.
  bool has(const std::string &name) const { return app.count(name) > 0; }

  CLI::App &app;
  CompileOptions &options;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONS_OPTIONGROUP_H
