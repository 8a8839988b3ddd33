// Pages of lists: `page_size` and `page_token` of a request, `next_page_token` of its answer. A token is the last name
// of the page before: names that come or go meanwhile shift nothing.
//
//   FinishWithNames(call, models_.List(), [](const auto& entry) { return entry.first; },
//                   [&](const auto& entry) { Describe(*entry.second, call.response().add_models()); });

#ifndef SERVER_SERVICES_PAGES_H_
#define SERVER_SERVICES_PAGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/rpc/call.h"

namespace gluond::server {

inline constexpr int32_t kMostPageEntries = 1000;

// Entries [begin, end) of a list, and the token of those after them; empty: there are none.
struct Page {
  size_t begin = 0;
  size_t end = 0;
  std::string next;
};

namespace pages_internal {

// Tokens begin so: another text is none, and says so.
inline constexpr char kToken[] = "after:";

inline std::string ToToken(absl::string_view name) {
  std::string token;
  absl::WebSafeBase64Escape(absl::StrCat(kToken, name), &token);
  return token;
}

inline absl::StatusOr<std::string> FromToken(absl::string_view token) {
  std::string text;
  absl::string_view name;
  if (absl::WebSafeBase64Unescape(token, &text)) {
    name = text;
    if (absl::ConsumePrefix(&name, kToken) && !name.empty()) return std::string(name);
  }
  return InField(
      "page_token",
      Invalid("page_token '", Excerpt(token),
              "' is none that this server gives; send next_page_token of the answer before, or nothing for the first page"));
}

}  // namespace pages_internal

// Takes out of a list what its caller's names do not reach.
template <class List, class NameOf>
void KeepThoseWithin(const Reach& reach, List* list, NameOf name_of) {
  if (reach.is_everything()) return;
  std::erase_if(*list, [&](const auto& entry) { return !reach.Has(name_of(entry)); });
}

// The page that `request` asks for of `list`, which is sorted by `name_of(entry)`.
template <class Request, class List, class NameOf>
absl::StatusOr<Page> PageOf(const Request& request, const List& list, NameOf name_of) {
  if (request.page_size() < 0) {
    return InField("page_size", Invalid("page_size is ", request.page_size(), "; want 1 or more, or 0 for all"));
  }
  Page page;
  if (!request.page_token().empty()) {
    absl::StatusOr<std::string> last = pages_internal::FromToken(request.page_token());
    if (!last.ok()) return last.status();
    page.begin = static_cast<size_t>(
        std::partition_point(list.begin(), list.end(), [&](const auto& entry) { return name_of(entry) <= *last; }) - list.begin());
  }
  const auto size = static_cast<size_t>(std::min(request.page_size(), kMostPageEntries));
  page.end = size == 0 ? list.size() : std::min(list.size(), page.begin + size);
  if (page.end < list.size()) page.next = pages_internal::ToToken(name_of(list[page.end - 1]));
  return page;
}

// Ends the call with the page that its request asks for of `list`, as PageOf: `add` is told each of its entries.
template <class CallType, class List, class NameOf, class Add>
void FinishWithPage(const CallType& call, List list, NameOf name_of, Add add) {
  ASSIGN_OR_FINISH(call, const Page page, PageOf(call.request(), list, name_of));
  for (size_t i = page.begin; i < page.end; ++i) add(list[i]);
  call.response().set_next_page_token(page.next);
  call.Finish();
}

// The same of those entries alone that the caller's names reach.
template <class CallType, class List, class NameOf, class Add>
void FinishWithNames(const CallType& call, List list, NameOf name_of, Add add) {
  KeepThoseWithin(call.reach(), &list, name_of);
  FinishWithPage(call, std::move(list), name_of, add);
}

}  // namespace gluond::server

#endif  // SERVER_SERVICES_PAGES_H_
