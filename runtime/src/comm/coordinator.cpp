// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One thread and poll: what it does takes microseconds.

#include "comm/coordinator.h"

#include <algorithm>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace trainrt {

namespace {
constexpr auto beatEvery = std::chrono::seconds(1);
constexpr int pollMilliseconds = 100;
/// Rank 0 waits for the others to leave, at most; where one is lost it may never do.
constexpr auto leaveLimit = std::chrono::seconds(10), lostLimit = std::chrono::seconds(1);

Message say(Word word, std::vector<std::string> texts = {}) {
  return {uint32_t(word), std::move(texts)};
}

std::string seconds(std::chrono::milliseconds time) {
  return std::to_string(time.count() / 1000) + " s";
}
} // namespace

std::string packTexts(const std::vector<std::string> &texts) {
  std::string packed;
  for (const std::string &text : texts) {
    const uint64_t size = text.size();
    packed.append(reinterpret_cast<const char *>(&size), sizeof size);
    packed += text;
  }
  return packed;
}

/// Sizes are compared with what is left: the bytes may be anybody's.
bool unpackTexts(const std::string &packed, std::vector<std::string> &texts) {
  texts.clear();
  for (size_t at = 0; at < packed.size();) {
    uint64_t size = 0;
    if (packed.size() - at < sizeof size)
      return false;
    std::memcpy(&size, packed.data() + at, sizeof size);
    at += sizeof size;
    if (packed.size() - at < size)
      return false;
    texts.push_back(packed.substr(at, size));
    at += size;
  }
  return true;
}

/// Peers, values and all the rest are the thread's own from here on; `stopped` is the only word
/// from outside.
Coordinator::Coordinator(Socket socket, int world, const RankLimits &limits)
    : listening(std::move(socket)), world(world), limits(limits) {
  thread = std::thread([this] { run(); });
}

Coordinator::~Coordinator() {
  stopped.store(true);
  thread.join();
}

/// Who has come counts until it has left or ended, even if it never said its rank: for such the
/// limit is there.
bool Coordinator::isDone() const {
  if (!stopped.load())
    return false;
  return Clock::now() - stopping > (lost ? lostLimit : leaveLimit) ||
         std::all_of(peers.begin(), peers.end(),
                     [](const auto &peer) { return peer->gone || peer->left; });
}

/// A turn: what the peers say, one new connection at most, then what time brings. `waiting` has the
/// listening socket and then the peers in their order; new ones come to it with the next turn.
void Coordinator::run() {
  for (;;) {
    // The limits count from the last turn before that.
    if (!stopped.load())
      stopping = Clock::now();
    if (isDone())
      return;
    std::vector<pollfd> waiting{{listening.get(), POLLIN, 0}};
    for (const auto &peer : peers)
      // `poll` leaves negative numbers out.
      waiting.push_back({peer->gone ? -1 : peer->socket.fd(), POLLIN, 0});
    ::poll(waiting.data(), nfds_t(waiting.size()), pollMilliseconds);
    for (size_t i = 0; i + 1 < waiting.size(); ++i) {
      Peer &peer = *peers[i];
      if (peer.gone || !waiting[i + 1].revents)
        continue;
      std::deque<Message> messages;
      // All that has come is taken, also before an end: Leave is the last word of a connection.
      bool isThere = peer.socket.receive(messages);
      for (const Message &message : messages)
        isThere = take(peer, message) && isThere;
      if (isThere)
        continue;
      peer.gone = true;
      // Who never joined, or was refused, is no loss.
      if (peer.rank >= 0 && !peer.left)
        lose(peer.name() + " has ended without a word");
    }
    if (waiting[0].revents & POLLIN)
      if (Socket accepted(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
          accepted.isOpen())
        peers.push_back(std::make_unique<Peer>(std::move(accepted)));
    watch();
  }
}

/// Only ranks that have joined can be silent. The time to join runs from the coordinator's
/// beginning.
void Coordinator::watch() {
  const Clock::time_point now = Clock::now();
  if (now - beaten >= beatEvery) {
    beaten = now;
    tellAll(say(Word::Beat));
  }
  for (const auto &peer : peers)
    if (peer->rank >= 0 && !peer->gone && !peer->left && now - peer->heard > limits.silence)
      lose(peer->name() + " has not been heard of for " + seconds(limits.silence));
  checkGathering();
  // Told once: `lose` sets `lost`.
  if (ready || lost || now - began < limits.join)
    return;
  // One that came and went again is not missing: that was told as a loss, or it has left.
  std::string missing;
  for (int rank = 0; rank < world; ++rank)
    if (std::none_of(peers.begin(), peers.end(),
                     [&](const auto &peer) { return peer->rank == rank; }))
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  lose("rank " + missing + " of " + std::to_string(world) + " did not come within " +
       seconds(limits.join) + (refused.empty() ? "" : "; sent away: " + refused));
}

void Coordinator::tellAll(const Message &message) {
  // One that it does not reach is noticed where its end is read, or by its silence.
  for (const auto &peer : peers)
    if (peer->rank >= 0 && !peer->gone)
      peer->socket.send(message);
}

/// Once: what follows from the first loss would only hide it.
void Coordinator::lose(const std::string &why) {
  if (std::exchange(lost, true))
    return;
  tellAll(say(Word::Lost, {why}));
}

/// It is told what is wrong, and so are those who wait in vain for the rank that it should have
/// been.
void Coordinator::refuse(Peer &peer, const std::string &why) {
  refused = why;
  peer.socket.send(say(Word::Refuse, {why}));
}

/// The peer has no rank. It gets one where the worlds are equal and nobody has it; the last one to
/// come makes the run ready. False: its connection is given up.
bool Coordinator::join(Peer &peer, const Message &message) {
  if (message.texts.size() != 3)
    return false;
  const int rank = std::atoi(message.texts[0].c_str()), other = std::atoi(message.texts[1].c_str());
  if (other != world || rank < 0 || rank >= world) {
    refuse(peer, "rank " + std::to_string(rank) + " of " + std::to_string(other) + " on " +
                     message.texts[2] + " came to a run of " + std::to_string(world));
    return false;
  }
  // Also of those that have gone: nobody comes back into a run.
  for (const auto &known : peers)
    if (known->rank == rank) {
      refuse(peer, "there are two ranks " + std::to_string(rank) + ": on " + known->place +
                       " and on " + message.texts[2]);
      return false;
    }
  // From here on its silence and its end are losses.
  peer.rank = rank;
  peer.place = message.texts[2];
  if (const std::string own = localAddress(peer.socket.fd()); reached.empty() || !isLoopback(own))
    reached = own;
  if (std::count_if(peers.begin(), peers.end(),
                    [](const auto &known) { return known->rank >= 0; }) == world) {
    ready = true;
    const auto first = std::find_if(peers.begin(), peers.end(),
                                    [](const auto &known) { return known->rank == 0; });
    // A name may lead to the machine itself there, and to its address elsewhere.
    for (const auto &other : peers)
      if (other->rank >= 0 && !other->gone)
        other->socket.send(
            say(Word::Ready,
                {isLoopback(localAddress(other->socket.fd())) ? reached : "", (*first)->name()}));
  }
  return true;
}

/// Now, or when some rank sets the key.
void Coordinator::answer(Peer &peer, const std::string &key) {
  auto found = values.find(key);
  if (found != values.end())
    peer.socket.send(say(Word::Value, {key, found->second}));
  else
    peer.wanted.push_back(key);
}

/// A rank waits for the answer before it tells the next: there is one of each at most.
void Coordinator::gather(Peer &peer, const std::string &bytes) {
  if (gathered.empty())
    gathering = Clock::now();
  gathered[peer.rank] = bytes;
  if (gathered.size() < size_t(world))
    return checkGathering();
  std::vector<std::string> all;
  for (auto &[rank, text] : gathered)
    all.push_back(std::move(text));
  gathered.clear();
  tellAll(say(Word::Gather, {packTexts(all)}));
}

/// Whoever has left in order comes to nothing more, and whoever is alive but does not come is stuck
/// somewhere: the first of them is named.
void Coordinator::checkGathering() {
  if (gathered.empty())
    return;
  const bool isLate = Clock::now() - gathering > limits.exchange;
  for (const auto &peer : peers)
    if (peer->rank >= 0 && !gathered.count(peer->rank) && (peer->left || isLate))
      lose(peer->name() + (peer->left
                               ? " has left, and others wait for it"
                               : " has let the others wait for " + seconds(limits.exchange)));
}

/// Any word is a sign of life. False for words that ranks do not say, and for those with other
/// numbers of texts.
bool Coordinator::take(Peer &peer, const Message &message) {
  peer.heard = Clock::now();
  const auto &texts = message.texts;
  const auto word = static_cast<Word>(message.kind);
  if (word == Word::Join)
    return peer.rank < 0 && join(peer, message);
  if (peer.rank < 0)
    return false;
  switch (word) {
  case Word::Set:
    if (texts.size() != 2)
      return false;
    values[texts[0]] = texts[1];
    // The value is there: no `answer` makes a list of what is wanted longer.
    for (const auto &other : peers)
      if (std::erase(other->wanted, texts[0]))
        answer(*other, texts[0]);
    return true;
  case Word::Get:
    if (texts.size() != 1)
      return false;
    answer(peer, texts[0]);
    return true;
  case Word::Gather:
    if (texts.size() != 1 || !ready)
      return false;
    gather(peer, texts[0]);
    return true;
  case Word::Beat:
    return true;
  case Word::Leave:
    peer.left = true;
    checkGathering();
    return true;
  case Word::Abort:
    lose(peer.name() + ": " + (texts.empty() ? "it has failed" : texts[0]));
    return true;
  default:
    return false;
  }
}

} // namespace trainrt
