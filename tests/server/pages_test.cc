#include "server/services/pages.h"

#include <string>
#include <vector>

#include "gluond/v1/model.pb.h"
#include "gtest/gtest.h"

namespace gluond::server {
namespace {

using Names = std::vector<std::string>;

absl::StatusOr<Page> Ask(const Names& names, int32_t size, const std::string& token = "") {
  v1::ListModelsRequest request;
  request.set_page_size(size);
  request.set_page_token(token);
  return PageOf(request, names, [](const std::string& name) { return name; });
}

TEST(PagesTest, WithoutASizeThereIsOnePage) {
  const Names names(2000, "a");
  const absl::StatusOr<Page> page = Ask(names, 0);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->begin, 0u);
  EXPECT_EQ(page->end, 2000u);
  EXPECT_EQ(page->next, "");
  EXPECT_EQ(Ask({}, 7)->next, "");
}

TEST(PagesTest, PagesHaveAllEntriesOnce) {
  const Names names = {"a", "b", "c", "d", "e"};
  for (int32_t size = 1; size <= 6; ++size) {
    Names seen;
    std::string token;
    int pages = 0;
    do {
      const absl::StatusOr<Page> page = Ask(names, size, token);
      ASSERT_TRUE(page.ok()) << page.status();
      EXPECT_LE(page->end - page->begin, static_cast<size_t>(size));
      seen.insert(seen.end(), names.begin() + static_cast<int64_t>(page->begin), names.begin() + static_cast<int64_t>(page->end));
      token = page->next;
    } while (!token.empty() && ++pages < 10);
    EXPECT_EQ(seen, names) << size;
  }
}

TEST(PagesTest, NamesThatComeAndGoShiftNothing) {
  const std::string token = Ask({"a", "b", "c", "d"}, 2)->next;
  const Names later = {"a", "aa", "c", "d"};  // "b", the last one seen, has gone.
  const absl::StatusOr<Page> page = Ask(later, 2, token);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(later[page->begin], "c");
  EXPECT_EQ(page->end, 4u);
  EXPECT_EQ(Ask({"a"}, 2, token)->begin, 1u) << "nothing is left";
}

TEST(PagesTest, APageHasAThousandEntriesAtMost) {
  Names names;
  for (int i = 0; i < 1500; ++i) names.push_back(absl::StrCat(10'000 + i));
  const absl::StatusOr<Page> page = Ask(names, 1'000'000);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->end, 1000u);
  EXPECT_EQ(Ask(names, 1'000'000, page->next)->end, 1500u);
}

TEST(PagesTest, MistakesNameTheField) {
  const absl::Status negative = Ask({"a"}, -1).status();
  EXPECT_EQ(negative.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(InfoOf(negative)->metadata[0].second, "page_size");
  for (const char* token : {"a", "!", "YQ", "YWZ0ZXI6"}) {  // The last two are "a" and "after:" in Base64.
    const absl::Status bad = Ask({"a"}, 1, token).status();
    EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument) << token;
    ASSERT_TRUE(InfoOf(bad).has_value()) << token;
    EXPECT_EQ(InfoOf(bad)->metadata[0].second, "page_token");
  }
}

}  // namespace
}  // namespace gluond::server
