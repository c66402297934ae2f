// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A thread listens, and beats once a second.

#include "comm/control_plane.h"

#include <poll.h>
#include <unistd.h>

namespace trainrt {

using Clock = std::chrono::steady_clock;

namespace {
constexpr auto beatEvery = std::chrono::seconds(1);
constexpr int pollMilliseconds = 100;
} // namespace

Status ControlPlane::join(int rank, int world, const Endpoint &at, Socket listening,
                          const RankLimits &limits, std::unique_ptr<ControlPlane> &result) {
  std::unique_ptr<Coordinator> coordinator;
  if (rank == 0) {
    if (!listening.isOpen())
      TRAINRT_TRY(listenAt(at.port, listening));
    coordinator = std::make_unique<Coordinator>(std::move(listening), world, limits);
  }
  Socket connected;
  TRAINRT_TRY(connectTo(at, limits.join, connected));
  std::unique_ptr<ControlPlane> plane(
      new ControlPlane(MessageSocket(std::move(connected)), limits));
  plane->coordinator = std::move(coordinator);
  plane->own = localAddress(plane->socket.fd());
  const std::string place = hostName() + " (process " + std::to_string(::getpid()) + ")";
  plane->send({uint32_t(Word::Join), {std::to_string(rank), std::to_string(world), place}});
  plane->thread = std::thread([plane = plane.get()] { plane->run(); });
  std::unique_lock lock(plane->mutex);
  // The coordinator says who is missing; the second limit is for one that says nothing.
  plane->changed.wait_for(lock, limits.join + limits.silence,
                          [&] { return plane->ready || !plane->lost.ok(); });
  if (!plane->lost.ok())
    return plane->lost;
  if (!plane->ready)
    return fail(Code::RankLost, "the coordinator at ", at.host, ":", at.port,
                " has taken this rank's call but does not answer it");
  lock.unlock();
  result = std::move(plane);
  return {};
}

ControlPlane::~ControlPlane() {
  send({uint32_t(Word::Leave), {}});
  {
    std::lock_guard lock(mutex);
    stopped = true;
    tell = nullptr;
  }
  if (thread.joinable())
    thread.join();
}

bool ControlPlane::send(const Message &message) {
  std::lock_guard lock(sending);
  return socket.send(message);
}

void ControlPlane::run() {
  Clock::time_point beaten = Clock::now(), heard = beaten;
  for (;;) {
    pollfd waiting{socket.fd(), POLLIN, 0};
    const bool came = ::poll(&waiting, 1, pollMilliseconds) == 1;
    bool isThere = true;
    if (came) {
      std::deque<Message> messages;
      isThere = socket.receive(messages);
      heard = Clock::now();
      for (const Message &message : messages)
        take(message);
    }
    const Clock::time_point now = Clock::now();
    if (now - beaten >= beatEvery) {
      beaten = now;
      send({uint32_t(Word::Beat), {}});
    }
    if (!isThere)
      lose("rank 0, the coordinator, has ended");
    else if (now - heard > limits.silence)
      lose("rank 0, the coordinator, has not been heard of for " +
           std::to_string(limits.silence.count() / 1000) + " s");
    std::lock_guard lock(mutex);
    if (stopped || !isThere)
      return;
  }
}

void ControlPlane::take(const Message &message) {
  const auto word = static_cast<Word>(message.kind);
  if ((word == Word::Lost || word == Word::Refuse) && message.texts.size() == 1)
    return lose(message.texts[0]);
  std::lock_guard lock(mutex);
  if (word == Word::Ready)
    ready = true;
  else if (word == Word::Value && message.texts.size() == 2)
    values[message.texts[0]] = message.texts[1];
  changed.notify_all();
}

void ControlPlane::lose(const std::string &why) {
  std::function<void()> call;
  {
    std::lock_guard lock(mutex);
    if (!lost.ok() || stopped)
      return;
    lost = Status(Code::RankLost, shownLines(why));
    call = std::exchange(tell, nullptr);
    changed.notify_all();
  }
  if (call)
    call();
}

Status ControlPlane::set(const std::string &key, const std::string &value) {
  return send({uint32_t(Word::Set), {key, value}})
             ? Status()
             : explain(Status(Code::RankLost, "rank 0, the coordinator, has ended"));
}

Status ControlPlane::get(const std::string &key, std::string &value) {
  send({uint32_t(Word::Get), {key}});
  std::unique_lock lock(mutex);
  changed.wait_for(lock, limits.exchange, [&] { return values.count(key) || !lost.ok(); });
  if (!lost.ok())
    return lost;
  auto found = values.find(key);
  if (found == values.end())
    return fail(Code::RankLost, "no rank has told '", key, "' within ",
                limits.exchange.count() / 1000, " s");
  value = found->second;
  return {};
}

void ControlPlane::abort(const std::string &why) { send({uint32_t(Word::Abort), {why}}); }

Status ControlPlane::failure() const {
  std::lock_guard lock(mutex);
  return lost;
}

void ControlPlane::onFailure(std::function<void()> call) {
  {
    std::lock_guard lock(mutex);
    if (lost.ok() || !call) {
      tell = std::move(call);
      return;
    }
  }
  call();
}

Status ControlPlane::explain(const Status &otherwise) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, std::chrono::seconds(2), [&] { return !lost.ok(); });
  return lost.ok() ? otherwise : lost;
}

} // namespace trainrt
