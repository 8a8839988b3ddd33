// Catalog: the things of one kind that a client can name (block types, initializers, losses, optimizers, schedules,
// metrics), each with a description and typed, documented attributes. Each catalog is one explicit table, so that one
// file lists all its entries. Letter case does not count in names, as in MXNet's registries. Immutable, thread-safe.
//
//   ASSIGN_OR_RETURN(const auto* entry, Losses().Find("L2Loss"));
//   for (const ArgumentDoc& attribute : entry->attributes) ...

#ifndef ENGINE_NN_CATALOG_H_
#define ENGINE_NN_CATALOG_H_

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/param.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"

namespace gluond {

// A name from a catalog with attributes as text, as a client sends it and a checkpoint keeps it.
struct Spec {
  std::string type = {};
  AttrDict attrs = {};
};

// The attributes of `dict` as a P. INVALID_ARGUMENT as SchemaBase::Parse.
template <class P>
absl::StatusOr<P> ParseAttrs(const AttrDict& dict) {
  P param{};
  RETURN_IF_ERROR(P::GetSchema().Parse(&param, dict));
  return param;
}

// The parameter struct of an entry without attributes.
struct NoParam : Param<NoParam> {
  static void Fields(Schema<NoParam>&) {}
};

// `Signature` is the type of the function that an entry is made for, as in Catalog<std::unique_ptr<Metric>(...)>.
template <class Signature>
class Catalog {
 public:
  struct Entry {
    std::string name;
    std::string description;
    std::vector<ArgumentDoc> attributes;
    std::function<Signature> make;
    std::vector<std::string> aliases;  // Other names.

    Entry(std::string name, std::string description, std::vector<ArgumentDoc> attributes, std::function<Signature> make,
          std::vector<std::string> aliases = {})
        : name(std::move(name)),
          description(std::move(description)),
          attributes(std::move(attributes)),
          make(std::move(make)),
          aliases(std::move(aliases)) {}

    bool IsCalled(absl::string_view other) const {
      const auto same = [other](const std::string& one) { return absl::EqualsIgnoreCase(one, other); };
      return same(name) || std::any_of(aliases.begin(), aliases.end(), same);
    }
  };

  Catalog(std::string kind, std::vector<Entry> entries) : kind_(std::move(kind)), entries_(std::move(entries)) {}

  const std::vector<Entry>& entries() const { return entries_; }

  // By name or alias. NOT_FOUND names the closest entries, then all entries.
  absl::StatusOr<const Entry*> Find(absl::string_view name) const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) {
      if (entry.IsCalled(name)) return &entry;
      names.push_back(entry.name);
    }
    return absl::NotFoundError(absl::StrCat("there is no ", kind_, " '", Excerpt(name), "'", DidYouMean(name, names),
                                            " (known: ", absl::StrJoin(names, ", "), ")"));
  }

  // Finds and makes; the message of a wrong attribute starts with the entry's name.
  template <class... Args>
  auto Make(absl::string_view name, Args&&... args) const
      -> decltype(std::declval<std::function<Signature>>()(std::forward<Args>(args)...)) {
    ASSIGN_OR_RETURN(const Entry* entry, Find(name));
    auto made = entry->make(std::forward<Args>(args)...);
    if (!made.ok()) return Annotate(StatusOf(made), absl::StrCat(kind_, " '", entry->name, "'"));
    return made;
  }

 private:
  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <class T>
  static const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
    return result.status();
  }

  const std::string kind_;
  const std::vector<Entry> entries_;
};

}  // namespace gluond

#endif  // ENGINE_NN_CATALOG_H_
