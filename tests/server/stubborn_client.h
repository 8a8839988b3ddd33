// A client of SessionService that goes on with its commands where its last stream was cut.

#ifndef TESTS_SERVER_STUBBORN_CLIENT_H_
#define TESTS_SERVER_STUBBORN_CLIENT_H_

#include <atomic>
#include <functional>
#include <random>

#include "tests/server/session_fixture.h"

namespace gluond::server {

// Its commands, by number from 1 on, and the number of its answers.
struct Script {
  std::function<v1::Command(uint64_t number)> command;
  uint64_t commands;
  uint64_t replies;
};

class StubbornClient {
 public:
  StubbornClient(Script script, uint32_t seed) : script_(std::move(script)), random_(seed) {}

  // One stream: goes on where the last one was cut, until all is answered or it is cut itself. True: all is done.
  bool Try(v1::SessionService::Stub& stub, int cut_after, std::chrono::milliseconds pause = {}) {
    ClientStream stream(stub);
    const std::string opened = stream.Open(session_, replies_received_);
    if (opened.empty()) return false;
    session_ = opened;
    const uint64_t known = stream.received();
    std::thread cut([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(cut_after));
      if (cut_after > 0) stream.Cancel();
    });
    // Sometimes it sends commands that the server has received already.
    std::thread send([&] {
      uint64_t next = known + 1 - std::min<uint64_t>(known, random_() % 4);
      while (next <= script_.commands) {
        v1::SessionRequest request;
        request.set_first_number(next);
        request.set_replies_received(replies_received_);
        for (uint64_t i = random_() % 20; i > 0 && next <= script_.commands; --i) {
          *request.add_commands() = script_.command(next++);
        }
        if (!stream.Send(request)) return;
        std::this_thread::sleep_for(pause);
      }
    });
    Collect(stream);
    cut.join();
    send.join();
    return replies_received_ == script_.replies;
  }

  // The values by number of command.
  const std::map<uint64_t, std::string>& replies() const { return replies_; }

 private:
  void Collect(ClientStream& stream) {
    while (replies_received_ < script_.replies) {
      const v1::Reply reply = stream.NextReply();
      if (reply.index() == 0) return;
      EXPECT_EQ(reply.index(), replies_received_ + 1);
      EXPECT_EQ(reply.failures_size(), 0) << reply.ShortDebugString();
      std::string value;
      for (const v1::Tensor& tensor : reply.tensors()) value += tensor.raw();
      EXPECT_TRUE(replies_.emplace(reply.number(), value).second) << "answered twice";
      replies_received_ = reply.index();
    }
  }

  const Script script_;
  std::mt19937 random_;
  std::string session_;
  std::atomic<uint64_t> replies_received_ = 0;
  std::map<uint64_t, std::string> replies_;
};

// The answers of a client that nobody disturbs.
inline std::map<uint64_t, std::string> Undisturbed(v1::SessionService::Stub& stub, const Script& script) {
  StubbornClient calm(script, 1);
  EXPECT_TRUE(calm.Try(stub, 0));
  return calm.replies();
}

// Cuts the streams of so many clients at random, one client after the other. Returns how often it cut.
inline int ExpectCutsDoNotMatter(v1::SessionService::Stub& stub, const Script& script, uint32_t clients) {
  const auto expected = Undisturbed(stub, script);
  EXPECT_EQ(expected.size(), script.replies);
  int cuts = 0;
  for (uint32_t seed = 0; seed < clients; ++seed) {
    std::mt19937 random(seed);
    StubbornClient client(script, seed);
    for (int i = 0; !client.Try(stub, i < 30 ? 1 + static_cast<int>(random() % 1500) : 0); ++i) ++cuts;
    EXPECT_EQ(client.replies(), expected) << "seed " << seed;
  }
  return cuts;
}

}  // namespace gluond::server

#endif  // TESTS_SERVER_STUBBORN_CLIENT_H_
