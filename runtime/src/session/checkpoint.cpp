// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Saving goes into a hidden temporary folder, which is synced and renamed; loading reads and checks
// everything of a candidate before it touches the session. Wherever a process is killed, a complete
// checkpoint is left: an older one goes when the new one is in its place. Of several ranks each
// writes a part; rank 0 does all that is done to folders.

#include "session/checkpoint.h"
#include "format/hash.h"
#include "format/json.h"
#include "io/convert.h"
#include "io/safetensors.h"
#include "session/checkpoint_file.h"
#include "session/ranks/agreement.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace trainrt {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr int64_t checkpointMajor = 1, checkpointMinor = 1;
constexpr const char *parametersName = "parameters.safetensors";
constexpr const char *optimizerName = "optimizer.safetensors";
constexpr const char *stateName = "state.json";

/// N of a name "step-N"; -1 for other names.
/// At most 18 digits, so that the number does not overflow.
int64_t stepOf(const std::string &name) {
  if (!name.starts_with("step-") || name.size() < 6 || name.size() > 23)
    return -1;
  int64_t step = 0;
  for (char c : name.substr(5)) {
    if (c < '0' || c > '9')
      return -1;
    step = step * 10 + (c - '0');
  }
  return step;
}

/// Of a checkpoint of the same step that is about to be replaced: ".step-N-old-PID".
constexpr const char *replacedMark = "-old-";
/// Of one of another run, where the first of this run is about to appear: ".step-N-before-PID".
constexpr const char *foreignMark = "-before-";

/// N of a name with this mark; -1 for other names.
/// The marks are behind the step's number.
int64_t stepAside(const std::string &name, const char *mark) {
  const size_t at = name.find(mark);
  return name.starts_with(".step-") && at != name.npos ? stepOf(name.substr(1, at - 1)) : -1;
}

bool isAside(const std::string &name) {
  return stepAside(name, replacedMark) >= 0 || stepAside(name, foreignMark) >= 0;
}

/// Errors of the system, with the path.
Status ioError(const std::string &what, const std::string &path, const std::error_code &error) {
  return fail(Code::IoError, "cannot ", what, " '", path, "': ", error.message());
}

/// Calls `body` with each entry of `directory`: all of them, or IoError.
template <typename Body> Status forEachEntry(const std::string &directory, Body body) {
  std::error_code error;
  // An error in the middle would make a folder look emptier than it is.
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    body(it->path());
  return error ? ioError("read", directory, error) : Status();
}

/// A folder that may be a checkpoint. Those of a run that was being overwritten when a process was
/// killed come behind all others, and those that were being replaced behind the new ones of their
/// step.
struct Found {
  bool isOfThisRun = true;
  int64_t step = 0;
  std::string path;
  ino_t inode = 0; ///< 0: it is gone
  // In the order of the members: another run's first, then the step, then the path.
  auto operator<=>(const Found &) const = default;
};

/// The newest first.
Status listCandidates(const std::string &directory, std::vector<Found> &found) {
  found.clear();
  TRAINRT_TRY(forEachEntry(directory, [&](const fs::path &path) {
    const std::string name = path.filename().string();
    // A link that leads nowhere is gone, too.
    struct stat info;
    const ino_t inode = stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
    for (int64_t step : {stepOf(name), stepAside(name, replacedMark)})
      if (step >= 0)
        found.push_back({true, step, path.string(), inode});
    if (int64_t step = stepAside(name, foreignMark); step >= 0)
      found.push_back({false, step, path.string(), inode});
  }));
  // Descending: this run's newest first.
  std::sort(found.rbegin(), found.rend());
  return {};
}

/// CRC-32 as eight digits.
std::string hex32(uint32_t value) { return hex64(value).substr(8); }

/// state.json holds a checksum of itself: the CRC-32 of its bytes with these digits as zeros. Where
/// they are; npos in checkpoints of before format 1.1. Keys are sorted, so the first match is it.
size_t checksumPlace(const std::string &text) {
  const std::string key = "\"" + std::string(stateName) + "\": \"";
  const size_t at = text.find(key);
  return at == text.npos || text.size() - at < key.size() + 8 ? text.npos : at + key.size();
}

std::string stateChecksum(std::string text, size_t place) {
  // With zeros in its place, as it was computed.
  text.replace(place, 8, "00000000");
  return hex32(crc32(text.data(), text.size()));
}

/// Removes its folder unless it was released.
struct TemporaryFolder {
  std::string path;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path.empty())
      fs::remove_all(path, ignored);
  }
};

/// A checkpoint whose files have been read and checked.
struct Candidate {
  SafetensorsReader parameters, optimizer;
  Json state;
};

/// BadData: damaged.
Status readCandidate(const std::string &path, Candidate &candidate) {
  std::shared_ptr<const MappedFile> file;
  std::string name = path + "/" + stateName;
  // Everything before it is used: nothing in the session changes for a damaged one.
  TRAINRT_TRY(MappedFile::open(name, file));
  const std::string text(reinterpret_cast<const char *>(file->data()), file->size());
  candidate.state = parseJson<Json>(text);
  const Json &state = candidate.state;
  auto bad = [&](const auto &...what) { return fail(Code::BadData, "'", name, "': ", what...); };
  auto isCount = [](const Json &value) {
    return value.is_number_integer() && value.get<int64_t>() >= 0;
  };
  if (!state.is_object())
    return bad("it ", notJsonObject(text));
  if (!state.contains("format") || !state.contains("checksums") || !state["format"].is_object() ||
      !state["checksums"].is_object())
    return bad("it is damaged");
  if (!state["format"].contains("major") || !isCount(state["format"]["major"]) ||
      state["format"]["major"].get<int64_t>() > checkpointMajor)
    return bad("field 'format.major' is newer than this runtime, which reads up to ",
               checkpointMajor);
  // A file without a checksum is of a version that had none, if it says so itself.
  const size_t place = checksumPlace(text);
  const bool sealed = state["format"].contains("minor") && state["format"]["minor"] != 0;
  if (place == text.npos ? sealed : text.substr(place, 8) != stateChecksum(text, place))
    return bad("it is damaged: its checksum is not the one in it");
  for (const char *field : {"step", "seed"})
    if (!state.contains(field) || !state[field].is_number_integer())
      return bad("field '", field, "' is missing");
  if (!isCount(state["step"]))
    return bad("field 'step' is negative");
  // Beyond this numbers of steps would overflow.
  if (state["step"].get<int64_t>() > maxSteps)
    return bad("field 'step' is too large");
  // The CRCs of whole files, before their headers are believed.
  for (auto [entry, reader] : {std::pair{parametersName, &candidate.parameters},
                               std::pair{optimizerName, &candidate.optimizer}}) {
    TRAINRT_TRY(MappedFile::open(path + "/" + entry, file));
    std::string actual = hex32(crc32(file->data(), file->size()));
    if (!state["checksums"].contains(entry) || state["checksums"][entry] != actual)
      return fail(Code::BadData, "'", path, "/", entry,
                  "' is damaged: its checksum is not the one in ", stateName);
    TRAINRT_TRY(SafetensorsReader::open(file, *reader));
  }
  return {};
}

/// Whether all that steps change in a checkpoint is finite, as it says itself.
/// Only this one field, without the files: it is asked of many.
bool isFinite(const std::string &path) {
  std::shared_ptr<const MappedFile> file;
  if (!MappedFile::open(path + "/" + stateName, file).ok())
    return false;
  const Json state =
      parseJson<Json>({reinterpret_cast<const char *>(file->data()), size_t(file->size())});
  // Older ones do not say.
  return state.is_object() && (!state.contains("finite") || state["finite"] != false);
}

/// Whether checkpoints hold parameter `index`: with adapters, the frozen ones stay where they came
/// from. Those with a rule for their first values are the adapters, also in a package for
/// inference, which trains nothing.
bool isSaved(const Package &package, size_t index) {
  // Without adapters everything is saved.
  const Manifest::Tensor &parameter = package.parameter(index);
  return !package.manifest().lora || parameter.trainable || parameter.updated || parameter.init;
}

/// Whether `reader` has what the tables declare, but for those that are not `needed`, and with
/// `all` nothing else.
Status matches(const std::string &path, const SafetensorsReader &reader,
               const std::vector<TensorDecl> &decls, bool all, const std::string &wayOut = {},
               const std::function<bool(size_t)> &needed = {}) {
  // Counts what it has found, so that "nothing else" needs no second look.
  size_t found = 0;
  for (size_t i = 0; i < decls.size(); ++i) {
    const TensorDecl &decl = decls[i];
    const SafetensorsReader::Entry *entry = reader.find(decl.name);
    if (!entry && needed && !needed(i))
      continue;
    ++found;
    if (!entry)
      return fail(Code::BadData, "checkpoint '", path, "' is of another model or optimizer: '",
                  decl.name, "' is missing", wayOut);
    // Names, types and shapes: all of them, before anything is taken.
    if (entry->array.dtype != decl.dtype || entry->array.shape != decl.staticShape)
      return fail(Code::BadData, "checkpoint '", path, "' is of another model or optimizer: '",
                  decl.name, "' is ", nameOf(entry->array.dtype), " ",
                  shapeText(entry->array.shape), ", and ", nameOf(decl.dtype), " ",
                  shapeText(decl.staticShape), " in this package", wayOut);
  }
  if (all && reader.entries().size() != found)
    return fail(Code::BadData, "checkpoint '", path, "' is of another model or optimizer: it has ",
                reader.entries().size(), " tensors, expected ", found, wayOut);
  return {};
}

/// Whether the checkpoint is of the model of this package, as far as both say what theirs is.
/// Other graphs may have the same names and shapes.
Status isOfThisModel(const std::string &path, const Json &state, Session &session) {
  const Manifest &manifest = session.package().manifest();
  auto text = [&](const char *field) {
    const auto at = state.find(field);
    return at != state.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  const std::string identity = text("identity");
  // Identities of different versions say nothing about each other.
  auto version = [](const std::string &of) { return of.substr(0, of.find('-')); };
  if (identity.empty() || version(identity) != version(manifest.identity) ||
      identity == manifest.identity)
    return {};
  const std::string what = "checkpoint '" + path + "' is of another model: the graph of '" +
                           text("model") + "' that it was trained with is not that of '" +
                           manifest.model + "' in this package";
  // A model for inference is exported by itself: without loss, and often without labels.
  // The user's word, or a model without its loss, of which another graph is to be expected.
  if (session.takesAnyModel() || !manifest.training) {
    session.warnings() += shown(what) + "; it is loaded since names, types and shapes agree\n";
    return {};
  }
  return fail(Code::BadData, what,
              "; option 'any_model' (trainc-run --any-model) loads it all the "
              "same, and '",
              path, "/", parametersName, "' has its weights alone");
}

/// What the next steps' plans depend on; null where they depend on sizes alone. Without it a run
/// that goes on may round counts in another way, and so add in another order.
Json plansToJson(const Session &session) {
  const Program &program = session.package().program();
  // Only counts make plans depend on what was before.
  bool counts = false;
  for (const Symbol &symbol : program.symbols)
    counts |= symbol.counts;
  if (!counts)
    return nullptr;
  Json list = Json::array();
  // What the run gives is not of a plan: another may have other ranks.
  for (const PlanCache::Key &key : session.boundPlans()) {
    Json symbols = Json::object();
    // Sizes that the function depends on.
    for (size_t i = 0; i < key.symbols.size(); ++i)
      if (key.function->symbols[i] && program.symbols[i].run == Symbol::Run::None)
        symbols[program.symbols[i].name] = key.symbols[i];
    list.push_back({{"function", key.function->name}, {"symbols", std::move(symbols)}});
  }
  return list;
}

/// Those plans that this program has: it may have been compiled anew.
/// What does not fit is left out: a plan that is missing is made anew.
std::vector<PlanCache::Key> plansFromJson(const Program &program, const Json &list) {
  std::vector<PlanCache::Key> keys;
  for (const Json &entry : list) {
    if (!entry.is_object() || !entry.contains("function") || !entry["function"].is_string() ||
        !entry.contains("symbols") || !entry["symbols"].is_object())
      continue;
    PlanCache::Key key{program.function(entry["function"].get<std::string>()),
                       std::vector<int64_t>(program.symbols.size())};
    assert(program.symbols.size() == key.symbols.size() && "a value for each symbol");
    bool fits = key.function != nullptr;
    for (size_t i = 0; fits && i < program.symbols.size(); ++i) {
      // Checked as sizes of batches are.
      if (!key.function->symbols[i] || program.symbols[i].run != Symbol::Run::None)
        continue;
      const auto value = entry["symbols"].find(program.symbols[i].name);
      std::string ignored;
      fits = value != entry["symbols"].end() && value->is_number_integer() &&
             allowedValue(program.symbols[i], key.symbols[i] = value->get<int64_t>(), ignored);
    }
    if (fits && std::find(keys.begin(), keys.end(), key) == keys.end())
      keys.push_back(std::move(key));
  }
  return keys;
}

} // namespace

Status claimCheckpoints(Session &session, const std::string &directory, bool overwrite,
                        const CheckpointInfo &loaded, CheckpointClaim &claim) {
  claim.foreign.clear();
  // Other ranks write into what rank 0 has made.
  if (session.communicator() && session.communicator()->rank() > 0)
    return {};
  // Before anything is looked at: others that save here would change it.
  std::string unlocked;
  TRAINRT_TRY(claim.lock.take(directory, FolderLock::Purpose::Run, unlocked));
  if (!unlocked.empty())
    session.warnings() += unlocked + "\n";
  std::error_code error;
  // Another run may have taken away what was loaded, and be gone itself.
  // The folder that was loaded from, by inode, not by name.
  const bool goesOn = !loaded.path.empty() && fs::exists(loaded.path, error) &&
                      fs::equivalent(fs::path(loaded.path) / "..", directory, error);
  if (error)
    return ioError("inspect", loaded.path, error);
  // Newest first, so that the first foreign one is what messages name.
  std::vector<Found> candidates;
  TRAINRT_TRY(listCandidates(directory, candidates));
  for (const Found &found : candidates) {
    // The run goes on: what leads to its step is its own, and what is newer is in its way only if a
    // later run would go on there.
    Candidate candidate;
    if (!goesOn || (found.step > loaded.step && readCandidate(found.path, candidate).ok()))
      claim.foreign.push_back(found.path);
  }
  // They stay until the first save of this run is complete.
  if (claim.foreign.empty() || overwrite)
    return {};
  const std::string newest = fs::path(claim.foreign.front()).filename().string();
  // Nothing was changed, so others may have the folder.
  claim.lock.release();
  if (goesOn)
    return fail(Code::BadData, "'", directory, "' has checkpoints that are newer than '",
                loaded.path, "', up to ", newest,
                ", and both cannot be told apart later: save into another folder, or overwrite "
                "them (trainc-run --overwrite)");
  return fail(Code::BadData, "'", directory, "' has checkpoints of another run, up to ", newest,
              ": save into another folder, go on with that run (trainc-run --resume '", directory,
              "'), or overwrite it (trainc-run --overwrite)");
}

namespace {

/// Writes one checkpoint: into a folder beside its place, which takes that place when all of it is
/// on the disk. All ranks do this together.
class Saving {
public:
  Saving(Session &session, const std::string &directory)
      : session(session), directory(directory), name("step-" + std::to_string(session.stepCount())),
        target(directory + "/" + name), ranks(session.communicator()) {}

  /// `claim`: may be null, or of another folder.
  Status save(const std::string &dataPosition, unsigned keep, CheckpointClaim *claim,
              CheckpointInfo &info);

  /// Steps of a save, in this order; of them all ranks lay out and write, the rest is rank 0's.
private:
  int rank() const { return ranks ? ranks->rank() : 0; }
  /// Tells the other ranks of `mine`, with `status`. An error of one is that of all.
  Status meet(Status status, RankSave &mine, std::vector<RankSave> &all) const;
  Status parsePosition(const std::string &text);
  Status layOut();
  Status begin(CheckpointClaim *&claim);
  Status removeStale();
  Status write(const std::string &path, RankSave &mine);
  Status finish(const std::vector<RankSave> &all, unsigned keep, CheckpointClaim &claim);
  Status writeState();
  /// Those of another run are no candidates any more.
  Status setAside(std::vector<std::string> &foreign);
  Status putInPlace();
  /// All but the newest `keep` of the run.
  void removeOlder(unsigned keep);
  void removeAll(const std::string &path);

  Session &session;
  const std::string &directory;
  const std::string name, target;
  Communicator *const ranks;
  CheckpointClaim passing; ///< where the caller has none: outlives the folder
  TemporaryFolder folder;
  Json position;
  struct Part {
    const char *name;
    CheckpointFile file{};
    std::vector<std::string> tensors{};
    std::vector<bool> changes{}; ///< by steps
    uint32_t crc = 0;
  };
  std::array<Part, 2> parts{Part{parametersName}, Part{optimizerName}};
  std::string noNumbers; ///< the first tensor with such values
  std::vector<std::string> replaced;
};

// Not an error: the checkpoint is whole all the same.
void Saving::removeAll(const std::string &path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (failed)
    session.warnings() +=
        "cannot remove '" + path + "': " + failed.message() + "; a later save tries it again\n";
}

Status Saving::parsePosition(const std::string &text) {
  if (!text.empty()) {
    // As deep as state.json may be, which holds it.
    // As one element of a list, so that any JSON value will do.
    position = parseJson<Json>("[" + text + "]");
    if (!position.is_array() || position.size() != 1)
      return fail(Code::InvalidArgument, "data_position is no JSON that nests less than ",
                  maxJsonDepth, " deep: ", text);
    position = Json(position[0]);
  }
  return {};
}

Status Saving::removeStale() {
  // What dead processes left behind while they were saving: the lock keeps others that live out. A
  // replaced checkpoint may be the only one: it goes when there is another.
  std::vector<std::string> stale;
  TRAINRT_TRY(forEachEntry(directory, [&](const fs::path &path) {
    // Hidden names are of saves only.
    if (std::string entry = path.filename().string(); entry.starts_with(".step-"))
      (isAside(entry) ? replaced : stale).push_back(path.string());
  }));
  for (const std::string &path : stale)
    removeAll(path);
  return {};
}

Status Saving::meet(Status status, RankSave &mine, std::vector<RankSave> &all) const {
  if (!ranks) {
    all = {mine};
    return status;
  }
  mine.status = std::move(status);
  Status met = exchangeSaves(*ranks, mine, all);
  return met.code() == Code::RankLost ? met.within("checkpoint '" + target + "': ") : met;
}

/// Values that every rank has are dealt out; of those that are shared out each writes its shard.
Status Saving::layOut() {
  const Package &package = session.package();
  const Program &program = package.program();
  std::vector<SafetensorsEntry> parameters, state;
  std::vector<ShardRange> cut[2]; // what this rank alone has of each
  auto add = [&](std::vector<SafetensorsEntry> &tensors, Session::Value kind, size_t i,
                 const TensorDecl &decl, bool changes) {
    const size_t part = kind == Session::Value::State;
    ShardRange own;
    tensors.push_back({decl.name, decl.dtype, decl.staticShape,
                       [this, kind, i](ArrayView &view) { return session.shard(kind, i, view); }});
    cut[part].push_back(session.holdsShard(kind, i, own) ? own : ShardRange());
    parts[part].tensors.push_back(decl.name);
    parts[part].changes.push_back(changes);
  };
  for (size_t i = 0; i < program.parameters.size(); ++i)
    // Frozen ones are as they came.
    if (isSaved(package, i))
      add(parameters, Session::Value::Parameter, i, program.parameters[i],
          package.parameter(i).trainable || package.parameter(i).updated);
  for (size_t i = 0; i < program.state.size(); ++i)
    add(state, Session::Value::State, i, program.state[i], true);
  std::vector<int64_t> loads(ranks ? size_t(ranks->world()) : 1);
  for (size_t part = 0; part < parts.size(); ++part) {
    std::vector<SafetensorsEntry> &tensors = part ? state : parameters;
    std::vector<ElementRange> ranges = dealTensors(tensors, rank(), loads);
    for (size_t i = 0; i < ranges.size(); ++i)
      if (const ShardRange &own = cut[part][i]; own.held) {
        const RunPlace &place = session.runPlace();
        const auto width = int64_t(sizeOf(tensors[i].dtype));
        // Replicas take turns at what all of them have.
        ranges[i] = int64_t(i) % place.replicas() == place.replica()
                        ? ElementRange{own.begin / width, (own.begin + own.there) / width}
                        : ElementRange();
      }
    TRAINRT_TRY(parts[part].file.layOut(std::move(tensors), std::move(ranges)));
  }
  return {};
}

Status Saving::begin(CheckpointClaim *&claim) {
  // A caller without a claim takes the folder for one save.
  if (!claim || !claim->lock.holds(directory)) {
    claim = &passing;
    std::string unlocked;
    TRAINRT_TRY(passing.lock.take(directory, FolderLock::Purpose::Write, unlocked));
    if (!unlocked.empty())
      session.warnings() += unlocked + "\n";
  }
  // Before this save makes such a folder itself.
  TRAINRT_TRY(removeStale());
  std::error_code error;
  folder.path = directory + "/." + name + "-" + std::to_string(getpid());
  fs::create_directory(folder.path, error);
  if (error)
    return ioError("create", folder.path, error);
  for (Part &part : parts)
    TRAINRT_TRY(part.file.create(folder.path + "/" + part.name));
  return {};
}

/// Views of memory that no step is changing: the session has settled.
Status Saving::write(const std::string &path, RankSave &mine) {
  size_t before = 0;
  for (size_t i = 0; i < parts.size(); before += parts[i++].tensors.size()) {
    Part &part = parts[i];
    if (rank() > 0)
      TRAINRT_TRY(part.file.open(path + "/" + part.name)
                      .within("it writes a part of the checkpoint that rank 0 has begun: "));
    TRAINRT_TRY(part.file.write([&](size_t tensor, const ArrayView &array) {
      const auto index = int64_t(before + tensor);
      if ((mine.nonfinite < 0 || index < mine.nonfinite) && part.changes[tensor] &&
          holdsNoNumber(array.dtype, array.data, array.bytes / int64_t(sizeOf(array.dtype))))
        mine.nonfinite = index;
    }));
    mine.written[i] = part.file.written();
  }
  return {};
}

/// With the checksums of the files, which are written already.
Status Saving::writeState() {
  Json state = {{"format", {{"major", checkpointMajor}, {"minor", checkpointMinor}}},
                {"model", session.package().manifest().model},
                {"identity", session.package().manifest().identity},
                {"step", session.stepCount()},
                {"seed", session.seed()},
                {"finite", noNumbers.empty()},
                {"data_position", position},
                {"plans", plansToJson(session)},
                {"checksums",
                 {{parametersName, hex32(parts[0].crc)},
                  {optimizerName, hex32(parts[1].crc)},
                  {stateName, hex32(0)}}}};
  std::string text = state.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  assert(checksumPlace(text) != text.npos && "written above");
  const size_t place = checksumPlace(text);
  text.replace(place, 8, stateChecksum(text, place));
  // Last: without it the folder is no checkpoint.
  TRAINRT_TRY(writeFile(folder.path + "/" + stateName, text));
  return syncDirectory(folder.path);
}

Status Saving::setAside(std::vector<std::string> &foreign) {
  std::error_code error;
  // The newest goes last: a run that is continued after a kill finds it until then.
  for (auto it = foreign.rbegin(); it != foreign.rend(); ++it) {
    const std::string entry = fs::path(*it).filename().string();
    // An earlier save has put it there, and was killed.
    if (stepOf(entry) < 0)
      continue; // aside already
    const std::string aside = directory + "/." + entry + foreignMark + std::to_string(getpid());
    fs::rename(*it, aside, error);
    if (error)
      return ioError("replace", *it, error);
    replaced.push_back(aside);
  }
  // From now on the run has none.
  foreign.clear();
  return {};
}

Status Saving::putInPlace() {
  std::error_code error;
  // A folder cannot replace one that is not empty. They are exchanged; where the filesystem cannot
  // do that, the older save of the same step is moved to a name under which it is still found.
  TemporaryFolder old;
  // Both names change at once: at no time is there none.
  if (renameat2(AT_FDCWD, folder.path.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    old.path = folder.path;
  } else {
    const std::string aside = directory + "/." + name + replacedMark + std::to_string(getpid());
    fs::rename(target, aside, error);
    if (!error)
      replaced.push_back(aside);
    else if (error != std::errc::no_such_file_or_directory)
      return ioError("replace", target, error);
    fs::rename(folder.path, target, error);
    // Back where it was, if that goes.
    if (error) {
      std::error_code ignored;
      fs::rename(aside, target, ignored);
      return ioError("create", target, error);
    }
  }
  folder.path.clear();
  // The exchange is on the disk before the old one goes.
  TRAINRT_TRY(syncDirectory(directory));
  if (!old.path.empty())
    replaced.push_back(std::exchange(old.path, {}));
  return {};
}

void Saving::removeOlder(unsigned keep) {
  std::vector<int64_t> steps;
  // Those beyond this step are of another run: they do not count, and stay.
  const Status status = forEachEntry(directory, [&](const fs::path &path) {
    if (int64_t step = stepOf(path.filename().string()); step >= 0 && step <= session.stepCount())
      steps.push_back(step);
  });
  if (!status.ok())
    session.warnings() += status.message() + ": older checkpoints stay until a later save\n";
  std::sort(steps.rbegin(), steps.rend());
  auto pathOf = [&](int64_t step) { return directory + "/step-" + std::to_string(step); };
  // The newest whose values are finite stays, however old it is.
  // A run whose values are no numbers any more may want to go back there.
  size_t good = 0;
  if (!noNumbers.empty())
    while (good < steps.size() && !isFinite(pathOf(steps[good])))
      ++good;
  for (size_t i = keep; i < steps.size(); ++i)
    if (i != good)
      removeAll(pathOf(steps[i]));
}

Status Saving::finish(const std::vector<RankSave> &all, unsigned keep, CheckpointClaim &claim) {
  int64_t first = -1;
  for (const RankSave &one : all)
    if (one.nonfinite >= 0 && (first < 0 || one.nonfinite < first))
      first = one.nonfinite;
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<WrittenBytes> written;
    for (const RankSave &one : all)
      written.insert(written.end(), one.written[i].begin(), one.written[i].end());
    TRAINRT_TRY(parts[i].file.checksum(std::move(written), parts[i].crc));
    if (first >= 0 && size_t(first) < parts[i].tensors.size())
      noNumbers = parts[i].tensors[size_t(first)];
    first -= int64_t(parts[i].tensors.size());
  }
  TRAINRT_TRY(writeState());
  // Others go out of the way only when this one is complete.
  TRAINRT_TRY(setAside(claim.foreign));
  TRAINRT_TRY(putInPlace());
  // Now the new one is found; what it replaces is not needed any more.
  for (const std::string &path : replaced)
    removeAll(path);
  if (keep)
    removeOlder(keep);
  if (!noNumbers.empty())
    session.warnings() +=
        "checkpoint '" + target + "': values of '" + noNumbers + "' are not finite\n";
  return {};
}

/// The ranks meet when rank 0 has made the files, when all have written, and when the folder has
/// its name: none goes on as if there was a checkpoint that there is not.
Status Saving::save(const std::string &dataPosition, unsigned keep, CheckpointClaim *claim,
                    CheckpointInfo &info) {
  RankSave mine;
  std::vector<RankSave> all;
  Status status = attempt([&]() -> Status {
    // Everything that can be refused without a file.
    TRAINRT_TRY(parsePosition(dataPosition));
    TRAINRT_TRY(session.usable());
    TRAINRT_TRY(session.initializeState());
    TRAINRT_TRY(layOut());
    const std::string headers = parts[0].file.header() + parts[1].file.header();
    mine.settings = name + " of the tensors " + hex64(fnv1a64(headers.data(), headers.size()));
    return rank() == 0 ? begin(claim) : Status();
  });
  mine.folder = fs::path(folder.path).filename();
  TRAINRT_TRY(meet(std::move(status), mine, all));
  // Each by its own name of the folder that all of them save into.
  const std::string path = directory + "/" + all[0].folder;
  status = attempt([&] { return write(path, mine); });
  TRAINRT_TRY(meet(std::move(status), mine, all));
  status = attempt([&] { return rank() == 0 ? finish(all, keep, *claim) : Status(); });
  TRAINRT_TRY(meet(std::move(status), mine, all));
  info = {session.stepCount(), session.seed(), target, position.dump()};
  return {};
}

} // namespace

Status saveCheckpoint(Session &session, const std::string &directory, unsigned keep,
                      const std::string &dataPosition, CheckpointInfo &info,
                      CheckpointClaim *claim) {
  // Steps under way are part of what is saved.
  session.settle();
  if (session.isInference())
    return fail(Code::Unsupported, "the session is for evaluation only, it has no state to save");
  return Saving(session, directory).save(dataPosition, keep, claim, info);
}

Status loadCheckpoint(Session &session, const std::string &directory, CheckpointInfo &info) {
  const Program &program = session.package().program();
  std::error_code error;
  std::vector<Found> candidates;
  // A checkpoint itself, or the folder that holds them.
  const bool isOne = fs::exists(directory + "/" + stateName, error);
  if (error)
    return ioError("inspect", directory, error);
  if (isOne) {
    candidates.emplace_back().path = directory;
  } else {
    if (!fs::is_directory(directory, error))
      return error && error != std::errc::no_such_file_or_directory &&
                     error != std::errc::not_a_directory
                 ? ioError("inspect", directory, error)
                 : fail(Code::NotFound, "there is no checkpoint folder '", directory, "'");
    TRAINRT_TRY(listCandidates(directory, candidates));
    if (candidates.empty())
      return fail(Code::NotFound, "there is no checkpoint (step-N) in '", directory, "'");
  }
  std::string skipped;
  // From the newest to the oldest, until one is whole.
  for (size_t next = 0; next < candidates.size();) {
    const std::string path = candidates[next++].path;
    Candidate candidate;
    Status status = readCandidate(path, candidate);
    if (!status.ok()) {
      // A run that is saving may just have replaced it by a newer one.
      std::vector<Found> now = candidates;
      if (!isOne)
        TRAINRT_TRY(listCandidates(directory, now));
      // Another look from the beginning.
      if (now != candidates) {
        candidates = std::move(now);
        skipped.clear();
        next = 0;
        continue;
      }
      skipped += "checkpoint '" + shown(path) + "' is skipped: " + status.message() + "\n";
      continue;
    }
    assert(!candidate.state.is_null() && "read and checked");
    // A package that was compiled for inference has no parameters that only the loss needs.
    TRAINRT_TRY(matches(path, candidate.parameters, program.parameters,
                        session.package().manifest().training, "",
                        [&](size_t i) { return isSaved(session.package(), i); }));
    if (session.hasState())
      TRAINRT_TRY(matches(path, candidate.optimizer, program.state, /*all=*/true,
                          "; compile with the --optimizer and --optimizer-state that it was made "
                          "with, or begin anew from its weights alone: --weights '" +
                              path + "/" + parametersName + "'"));
    // An older checkpoint of another model would be no better.
    TRAINRT_TRY(isOfThisModel(path, candidate.state, session));
    for (size_t i = 0; i < program.parameters.size(); ++i)
      if (!candidate.parameters.find(program.parameters[i].name) && !session.hasParameter(i))
        return fail(Code::MissingWeights, "checkpoint '", path,
                    "' holds what is trained of a model with adapters, and frozen parameters as '",
                    program.parameters[i].name,
                    "' have no values yet: give the model's own weights, too (--weights)");
    // All checks are done: from here on the session changes.
    for (size_t i = 0; i < program.parameters.size(); ++i)
      if (auto *entry = candidate.parameters.find(program.parameters[i].name))
        TRAINRT_TRY(session.setParameter(i, entry->array));
    // The state counts as there from here on: `init` must not run in between and overwrite it.
    session.restored(candidate.state["step"].get<int64_t>(),
                     candidate.state["seed"].get<int64_t>());
    if (session.hasState())
      for (size_t i = 0; i < program.state.size(); ++i)
        TRAINRT_TRY(session.setState(i, candidate.optimizer.find(program.state[i].name)->array));
    // Plans as they were, so that the next steps add in the same order.
    if (const auto plans = candidate.state.find("plans");
        plans != candidate.state.end() && plans->is_array() && !session.isInference())
      session.restorePlans(plansFromJson(program, *plans));
    session.warnings() += skipped;
    info.step = session.stepCount();
    info.seed = session.seed();
    info.path = path;
    info.dataPosition = candidate.state.contains("data_position")
                            ? candidate.state["data_position"].dump()
                            : "null";
    return {};
  }
  return fail(Code::NotFound, "there is no valid checkpoint in '", directory, "':\n",
              Lines{skipped});
}

} // namespace trainrt
