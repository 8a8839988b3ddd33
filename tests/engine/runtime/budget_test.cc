// Memory is charged before it is allocated, to a model's budget and to the server's, and comes back.

#include "engine/runtime/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/runtime/sparing_memory.h"
#include "tests/engine/runtime/test_ops.h"

namespace gluond {
namespace {

TEST(BudgetTest, SaysWhatIsUsedUp) {
  Budget budget("model 'lenet'", 1000, "--max_model_bytes");
  ASSERT_EQ(budget.Charge(600), absl::OkStatus());
  EXPECT_EQ(budget.Charge(401), OverLimit("--max_model_bytes",
                                          "memory of model 'lenet': 401 bytes wanted, 600 of 1000 in use; free some, "
                                          "or raise --max_model_bytes"));
  EXPECT_EQ(budget.used(), 600);
  EXPECT_EQ(budget.Charge(400), absl::OkStatus());
  budget.Refund(1000);
  EXPECT_EQ(budget.used(), 0);
}

TEST(BudgetTest, ChargesTheBudgetAroundIt) {
  const auto server = std::make_shared<Budget>("the server", 100, "--max_tensor_bytes");
  Budget one("model 'one'", 80, "--max_model_bytes", server);
  Budget two("model 'two'", 80, "--max_model_bytes", server);
  ASSERT_EQ(one.Charge(70), absl::OkStatus());
  EXPECT_EQ(two.Charge(40), OverLimit("--max_tensor_bytes",
                                      "memory of the server: 40 bytes wanted, 70 of 100 in use "
                                      "(model 'one' 70 bytes); free some, or raise --max_tensor_bytes"));
  EXPECT_EQ(two.used(), 0) << "charged both or neither";
  one.Refund(70);
  EXPECT_EQ(server->used(), 0);
  EXPECT_EQ(two.Charge(40), absl::OkStatus());
}

TEST(BudgetTest, TellsWhoHoldsIt) {
  const auto server = std::make_shared<Budget>("the server", 100 << 20, "--max_tensor_bytes");
  const auto mine = std::make_shared<const Account>("me"), other = std::make_shared<const Account>("other");
  std::vector<std::shared_ptr<Budget>> held;
  std::vector<std::pair<std::shared_ptr<Budget>, int64_t>> charged;
  const auto hold = [&](AccountPtr account, const char* name, int64_t bytes) {
    const ScopedAccount scope(std::move(account));
    held.push_back(Budget::PartOf(server));
    if (name != nullptr) held.push_back(std::make_shared<Budget>(name, 100 << 20, "--max", held.back()));
    ASSERT_EQ(held.back()->Charge(bytes), absl::OkStatus());
    charged.emplace_back(held.back(), bytes);
  };
  EXPECT_EQ(server->Holders(), "");
  hold(mine, "model 'a'", 4 << 20);
  hold(mine, nullptr, 1 << 10);
  hold(other, "the session", 2 << 20);
  hold(other, "the session", 1 << 20);
  hold(other, nullptr, 7);
  ASSERT_EQ(server->Charge(5), absl::OkStatus());
  const ScopedAccount scope(mine);
  EXPECT_EQ(server->Holders(),
            "model 'a' 4.0 MiB, 2 x the session of another connection 3.0 MiB, this connection's calls 1.0 KiB, "
            "another connection's calls 7 bytes, the rest 5 bytes");
  EXPECT_THAT(held[0]->Charge(99 << 20).message(),
              ::testing::HasSubstr("memory of the server: 103809024 bytes wanted, 7341068 of 104857600 in use "
                                   "(model 'a' 4.0 MiB, 2 x the session of another connection 3.0 MiB, "));
  for (const auto& [budget, bytes] : charged) budget->Refund(bytes);
  for (int i = 0; i < 12; ++i) {
    held.push_back(std::make_shared<Budget>(absl::StrCat("model ", i), 100, "--max", held[0]));
    ASSERT_EQ(held.back()->Charge(1 + i), absl::OkStatus());
  }
  EXPECT_THAT(server->Holders(), ::testing::EndsWith("model 5 6 bytes, the rest 5 bytes and 5 more"));
}

TEST(BudgetTest, WhoTakesAllLeavesSomethingToThoseWhoHoldLess) {
  // 320 are kept, 160 of them for parts that hold less than 10.
  const auto server = std::make_shared<Budget>("the server", 2560, "--f");
  std::vector<std::shared_ptr<Budget>> parts;
  for (const char* name : {"greedy", "fair", "small"}) {
    const ScopedAccount scope(std::make_shared<const Account>(name));
    parts.push_back(Budget::PartOf(server));
  }
  Budget &greedy = *parts[0], &fair = *parts[1], &small = *parts[2];
  ASSERT_EQ(fair.Charge(100), absl::OkStatus());
  EXPECT_EQ(greedy.Charge(2140), absl::OkStatus());
  EXPECT_THAT(greedy.Charge(1).message(), ::testing::HasSubstr("320 kept for clients that hold little"));
  EXPECT_EQ(fair.Charge(100), absl::OkStatus());
  EXPECT_EQ(fair.Charge(60), absl::OkStatus());
  EXPECT_FALSE(fair.Charge(1).ok());
  EXPECT_EQ(small.Charge(10), absl::OkStatus());
  EXPECT_FALSE(small.Charge(1).ok());
  for (const auto& part : parts) part->Refund(part->used());
  EXPECT_EQ(fair.Charge(2240), absl::OkStatus());
}

TEST(BudgetTest, WhatIsKeptIsKeptFromEveryBudgetWithin) {
  // As above; a device's budget is within the server's, and so are replies.
  const auto server = std::make_shared<Budget>("the server", 2560, "--f");
  const auto device = std::make_shared<Budget>("the device", 1920, "--d", server);
  std::vector<std::shared_ptr<Budget>> replies, tensors;
  for (const char* name : {"greedy", "fair", "small"}) {
    const ScopedAccount scope(std::make_shared<const Account>(name));
    replies.push_back(Budget::PartOf(server));
    tensors.push_back(Budget::PartOf(device));
  }
  EXPECT_EQ(replies[1]->Charge(100), absl::OkStatus());
  EXPECT_EQ(replies[0]->Charge(2000), absl::OkStatus());
  EXPECT_EQ(tensors[0]->Charge(140), absl::OkStatus());
  EXPECT_THAT(tensors[0]->Charge(1).message(), ::testing::HasSubstr("320 kept for clients that hold little"));
  EXPECT_EQ(replies[1]->Charge(100), absl::OkStatus());
  EXPECT_EQ(tensors[1]->Charge(60), absl::OkStatus());
  EXPECT_FALSE(tensors[1]->Charge(1).ok());
  EXPECT_EQ(replies[2]->Charge(5), absl::OkStatus());
  EXPECT_FALSE(tensors[2]->Charge(6).ok());
  EXPECT_EQ(tensors[2]->Charge(5), absl::OkStatus());
  for (const auto& parts : {replies, tensors}) {
    for (const auto& part : parts) part->Refund(part->used());
  }
  EXPECT_EQ(tensors[1]->Charge(1680), absl::OkStatus()) << "all that the device does not keep";
}

TEST(BudgetTest, AGroupHasALimitOfItsOwn) {
  const auto server = std::make_shared<Budget>("the server", 1 << 20, "--max_tensor_bytes");
  const auto acme = std::make_shared<AccountGroup>("acme");
  acme->Set(/*share=*/1, /*most_bytes=*/8000);
  std::vector<std::shared_ptr<Budget>> parts;
  for (const AccountGroupPtr& group : {AccountGroupPtr(acme), AccountGroupPtr(acme), AccountGroupPtr()}) {
    const ScopedAccount scope(std::make_shared<const Account>("a connection", group));
    parts.push_back(Budget::PartOf(server));
  }
  ASSERT_EQ(parts[0]->Charge(4000), absl::OkStatus());
  const absl::Status refused = parts[1]->Charge(4001);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("memory of tenant 'acme': 4001 bytes wanted, 4000 of 8000 in use"));
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("--tenants:bytes"));
  EXPECT_EQ(server->used(), 4000) << "nothing was charged";
  EXPECT_EQ(parts[2]->Charge(500'000), absl::OkStatus()) << "it is in no group";
  const auto device = std::make_shared<Budget>("the device", 1 << 19, "--d", server);
  const ScopedAccount scope(std::make_shared<const Account>("a connection", acme));
  const std::shared_ptr<Budget> tensors = Budget::PartOf(device);
  EXPECT_THAT(tensors->Charge(4001).message(),
              ::testing::HasSubstr("memory of tenant 'acme': 4001 bytes wanted, 4000 of 8000 in use (another connection's "
                                   "calls 3.9 KiB)"));
  EXPECT_EQ(tensors->Charge(3000), absl::OkStatus());
  EXPECT_THAT(parts[1]->Charge(1001).message(), ::testing::HasSubstr("7000 of 8000 in use")) << "the device's bytes count";
  tensors->Refund(3000);
  acme->Set(1, AccountGroup::kNoLimit);
  EXPECT_EQ(parts[1]->Charge(4001), absl::OkStatus());
  for (const auto& part : parts) part->Refund(part->used());
  EXPECT_EQ(server->used(), 0);
}

TEST(BudgetTest, OneGroupHearsNoNamesOfAnothers) {
  const auto server = std::make_shared<Budget>("the server", 1 << 20, "--max_tensor_bytes");
  const auto acme = std::make_shared<AccountGroup>("acme"), globex = std::make_shared<AccountGroup>("globex");
  std::vector<std::shared_ptr<Budget>> models;
  std::vector<AccountPtr> accounts;
  for (const AccountGroupPtr& group : {AccountGroupPtr(acme), AccountGroupPtr(globex), AccountGroupPtr()}) {
    const ScopedAccount scope(accounts.emplace_back(std::make_shared<const Account>("a connection", group)));
    const std::string name = absl::StrCat("model '", group == nullptr ? "" : group->name() + "/", "secret'");
    models.push_back(std::make_shared<Budget>(name, 1 << 20, "--max", Budget::PartOf(server)));
    ASSERT_EQ(models.back()->Charge(1000), absl::OkStatus());
  }
  const auto seen_by = [&](size_t i) {
    const ScopedAccount scope(accounts[i]);
    return server->Holders();
  };
  EXPECT_EQ(seen_by(0), "2 x others' things 2.0 KiB, model 'acme/secret' 1000 bytes");
  EXPECT_EQ(seen_by(2), "2 x others' things 2.0 KiB, model 'secret' 1000 bytes");
  EXPECT_EQ(server->Holders(), "2 x others' things 2.0 KiB, model 'secret' of another connection 1000 bytes")
      << "by the server itself, whose errors those of no group see";
}

TEST(BudgetTest, TellsWhatAGroupHolds) {
  const auto device = std::make_shared<Budget>("the device", 1 << 20, "--max_tensor_bytes");
  const auto acme = std::make_shared<AccountGroup>("acme"), globex = std::make_shared<AccountGroup>("globex");
  std::vector<std::shared_ptr<Budget>> parts;
  for (const AccountGroupPtr& group : std::vector<AccountGroupPtr>{acme, acme, globex, nullptr}) {
    const ScopedAccount scope(std::make_shared<const Account>("a connection", group));
    parts.push_back(Budget::PartOf(device));
    ASSERT_EQ(parts.back()->Charge(1000), absl::OkStatus());
  }
  EXPECT_EQ(device->UsedBy(*acme), 2000);
  EXPECT_EQ(device->UsedBy(*globex), 1000);
  EXPECT_EQ(device->UsedBy(*std::make_shared<AccountGroup>("nobody")), 0);
  for (const auto& part : parts) part->Refund(1000);
  parts.clear();
  EXPECT_EQ(device->UsedBy(*acme), 0);
}

TEST(BudgetTest, RemembersItsPeak) {
  Budget budget("b", 100, "--f");
  EXPECT_EQ(budget.peak(), 0);
  ASSERT_EQ(budget.Charge(70), absl::OkStatus());
  budget.Refund(50);
  ASSERT_EQ(budget.Charge(40), absl::OkStatus());
  EXPECT_FALSE(budget.Charge(41).ok());
  EXPECT_EQ(budget.peak(), 70);
}

TEST(BudgetTest, SumsDoNotOverflow) {
  Budget budget("b", 1000, "--f");
  ASSERT_EQ(budget.Charge(1000), absl::OkStatus());
  EXPECT_EQ(budget.Charge(std::numeric_limits<int64_t>::max()).code(), absl::StatusCode::kResourceExhausted);
}

TEST(BudgetTest, NeverExceedsItsLimitAmongThreads) {
  Budget budget("b", 10, "--f");
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) {
        if (!budget.Charge(4).ok()) continue;
        EXPECT_LE(++inside, 2);
        --inside;
        budget.Refund(4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0);
}

// `wanted` always fits where `refused` is charged in vain, whichever of the two budgets refuses it.
TEST(BudgetTest, ARefusedChargeTakesNothingFromAnother) {
  const struct {
    int64_t server, refuser, refused, fits, wanted;
  } kCases[] = {
      {.server = 40, .refuser = 60, .refused = 50, .fits = 60, .wanted = 30},  // The server refuses.
      {.server = 60, .refuser = 40, .refused = 50, .fits = 60, .wanted = 30},  // The model refuses.
  };
  for (const auto& one : kCases) {
    for (const bool same_model : {false, true}) {
      const auto server = std::make_shared<Budget>("the server", one.server, "--s");
      Budget refuser("model 'a'", one.refuser, "--m", server);
      Budget other("model 'b'", one.fits, "--m", server);
      Budget& fits = same_model ? refuser : other;
      std::atomic<bool> done = false;
      std::atomic<int> refusals = 0;
      std::thread refused([&] {
        for (; !done; ++refusals) EXPECT_FALSE(refuser.Charge(one.refused).ok());
      });
      absl::Status status;
      for (int i = 0; status.ok() && (i < 50'000 || refusals < 50'000); ++i) {
        status = fits.Charge(one.wanted);
        if (status.ok()) fits.Refund(one.wanted);
      }
      EXPECT_EQ(status, absl::OkStatus());
      done = true;
      refused.join();
      EXPECT_EQ(server->used(), 0);
    }
  }
}

TEST(DeviceAllocatorTest, GivesMemoryBackWithTheLastTensor) {
  auto budget = std::make_shared<Budget>("b", 1000, "--f");
  auto allocator = *DeviceAllocator::Create(Device(), budget);
  Tensor kept;
  {
    auto tensor = Tensor::Empty(*allocator, Shape{100}, DType::kFloat32);
    ASSERT_TRUE(tensor.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data()) % 64, 0u);
    kept = tensor->Reshaped(Shape{10, 10});
    EXPECT_EQ(Tensor::Empty(*allocator, Shape{151}, DType::kFloat32).status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(budget->used(), 400);
  allocator.reset();  // A buffer may outlive it.
  kept = Tensor();
  EXPECT_EQ(budget->used(), 0);
}

TEST(DeviceAllocatorTest, RefundsWhatTheDeviceRefuses) {
  auto budget = std::make_shared<Budget>("b", std::numeric_limits<int64_t>::max(), "--f");
  auto allocator = *DeviceAllocator::Create(Device(), budget);
  EXPECT_EQ(allocator->Allocate(~size_t{0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(budget->used(), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(GLUOND_THREAD_SANITIZER)  // Their malloc ends the program instead.
  EXPECT_EQ(allocator->Allocate(size_t{1} << 62).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(budget->used(), 0);
#endif
}

TEST(DeviceAllocatorTest, UnknownDevicesAreUnavailable) {
  const Device gpu = {DeviceType::kGpu, 99};
  EXPECT_EQ(DeviceAllocator::Create(gpu, nullptr).status().code(), absl::StatusCode::kUnavailable);
}

// Compiling says whose memory is used up, and leaves nothing charged: tables of the program are there before its arena is.
TEST(ExecutorBudgetTest, ARefusedGraphLeavesNothingCharged) {
  Bench bench;
  auto budget = std::make_shared<Budget>("model 'm'", 100000, "--max_model_bytes");
  auto allocator = *DeviceAllocator::Create(Device(), budget);
  const NodeEntry x = MakeVariable("x");
  const NodeEntry square = MakeNode("t_square", "s", {x});
  const std::vector<NodeEntry> outputs = {MakeNode("t_square", "t", {square})};
  const auto compile = [&](int64_t n) {
    return Executor::Compile(Graph{outputs}, SignatureOf(outputs, n), {}, bench.lane(), *allocator);
  };
  const int64_t arena = (*compile(1))->arena_bytes(), compiling = budget->peak() - arena;
  ASSERT_GT(compiling, 0);
  EXPECT_EQ(budget->used(), 0);
  EXPECT_EQ(compile(40000).status(),
            OverLimit("--max_model_bytes", absl::StrCat("the arena of a graph: memory of model 'm': 160000 bytes wanted, ",
                                                        compiling, " of 100000 in use; free some, or raise --max_model_bytes")));
  EXPECT_EQ(budget->used(), 0);
  auto executor = compile(20000);
  ASSERT_TRUE(executor.ok());
  const int64_t program = budget->used() - 80000;
  EXPECT_GT(program, 0);
  EXPECT_LT(program, compiling) << "what compiling alone has taken is charged no more";
  EXPECT_EQ((*executor)->own_bytes(), program + 80000);
  EXPECT_EQ((*executor)->RunAndWait(MakeRun({bench.Filled(20000, 1)}), nullptr),
            OverLimit("--max_model_bytes", absl::StrCat("output 0: memory of model 'm': 80000 bytes wanted, ", program + 80000,
                                                        " of 100000 in use; free some, or raise --max_model_bytes")));
  EXPECT_EQ((*executor)->RunAndWait(MakeRun({bench.Filled(20000, 1)}, {bench.Filled(20000, 0)}), nullptr), absl::OkStatus());
  executor->reset();
  bench.Drain();  // The lane may still be leaving the run.
  EXPECT_EQ(budget->used(), 0);
}

// A graph of 100,000 nodes is refused as it is walked, where there is no room for its program, and before there are passes.
TEST(ExecutorBudgetTest, ALargeGraphIsRefusedBeforeItIsCompiled) {
  Bench bench;
  NodeEntry y = MakeVariable("x");
  for (int i = 0; i < 100000; ++i) y = MakeNode("t_square", "s", {y});
  const auto compile = [&](Allocator& allocator) {
    return Executor::Compile(Graph{{y}}, SignatureOf({y}, 1), {}, bench.lane(), allocator).status();
  };
  const auto plenty = std::make_shared<Budget>("model 'm'", int64_t{1} << 30, "--max_model_bytes");
  ASSERT_EQ(compile(**DeviceAllocator::Create(Device(), plenty)), absl::OkStatus());
  EXPECT_GT(plenty->peak(), 100000 * 500) << "a node takes some hundred bytes";
  EXPECT_EQ(plenty->used(), 0);
  for (const int64_t limit : {int64_t{0}, int64_t{1} << 20, plenty->peak() - 1}) {
    const auto budget = std::make_shared<Budget>("model 'm'", limit, "--max_model_bytes");
    const absl::Status status = compile(**DeviceAllocator::Create(Device(), budget));
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), testing::AllOf(testing::HasSubstr("memory of model 'm': "),
                                                              testing::HasSubstr("; free some, or raise --max_model_bytes")));
    EXPECT_EQ(budget->used(), 0) << "limit " << limit;
  }
}

// A refused compilation makes room of what its owner keeps to be faster.
TEST(ExecutorBudgetTest, IdleExecutorsGoBeforeACompilationIsRefused) {
  Bench bench;
  const auto budget = std::make_shared<Budget>("model 'm'", int64_t{1} << 20, "--max_model_bytes");
  const auto memory = std::make_shared<SparingMemory>(*DeviceAllocator::Create(Device(), budget));
  ExecutorCache cache(bench.lane(), *memory);
  memory->Spare(&cache);
  NodeEntry y = MakeVariable("x");
  for (int i = 0; i < 900; ++i) y = MakeNode("t_square", "s", {y});
  const auto graph = std::make_shared<const Graph>(Graph{{y}});
  for (int64_t n = 1; n <= 8; ++n) {
    std::promise<absl::Status> done;
    cache.Checkout(bench.KeyOf(graph, n), [&](absl::StatusOr<ExecutorLease> lease) {
      const absl::Status status = lease.status();
      lease = ExecutorLease();
      done.set_value(status);
    });
    EXPECT_EQ(done.get_future().get(), absl::OkStatus()) << n;
  }
  bench.Drain();
  EXPECT_LT(cache.num_idle(), 8u);
  EXPECT_GT(cache.num_idle(), 0u);
  memory->Spare(nullptr);
}

}  // namespace
}  // namespace gluond
