#include "engine/core/op.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/core/mutex.h"
#include "engine/core/op_facts.h"
#include "engine/core/text.h"

namespace gluond {
namespace {

struct DeclaredAttr {
  std::type_index type;
  std::string place;
};

struct OpRegistry {
  std::map<std::string, std::unique_ptr<Op>, std::less<>> ops;
  std::map<std::string, const Op*, std::less<>> names;  // Aliases included.
  std::map<std::string, DeclaredAttr, std::less<>> attrs;
  std::vector<std::string> mistakes;
};

// Written before main and while a plugin loads (the server loads it before it serves), read after.
OpRegistry& GetRegistry() {
  static OpRegistry& registry = *new OpRegistry;  // Never destroyed: used by static initializers.
  return registry;
}

// Numbers of attributes' keys. Any thread asks, at any time.
struct AttrKeys {
  Mutex mu;
  std::map<std::string, size_t, std::less<>> indices ABSL_GUARDED_BY(mu);
};

AttrKeys& GetAttrKeys() {
  static AttrKeys& keys = *new AttrKeys;  // As the registry.
  return keys;
}

std::string Place(const char* file, int line) { return absl::StrCat(file, ":", line); }

// The C++11 map lookup by absl::string_view needs std::string_view.
std::string_view Std(absl::string_view s) { return {s.data(), s.size()}; }

uint32_t Count(const std::variant<uint32_t, FCount>& n, const NodeAttrs& attrs) {
  if (const FCount* fn = std::get_if<FCount>(&n)) return (*fn)(attrs);
  return std::get<uint32_t>(n);
}

// A call has at most so many inputs. A gradient's sum has one for each use of its variable.
constexpr uint32_t kMostInputs = 1 << 20;

std::vector<std::string> Numbered(absl::string_view stem, uint32_t n, bool even_one = false) {
  if (n == 1 && !even_one) return {std::string(stem)};
  std::vector<std::string> names;
  for (uint32_t i = 0; i < n; ++i) names.push_back(absl::StrCat(stem, i));
  return names;
}

}  // namespace

const Op* Op::Find(absl::string_view name) {
  const OpRegistry& registry = GetRegistry();
  const auto it = registry.names.find(Std(name));
  return it == registry.names.end() ? nullptr : it->second;
}

absl::StatusOr<const Op*> Op::Get(absl::string_view name) {
  if (const Op* op = Find(name)) return op;
  std::vector<std::string> names;
  for (const auto& [known, op] : GetRegistry().names) names.push_back(known);
  return absl::NotFoundError(absl::StrCat("operator '", Excerpt(name), "' is not registered", DidYouMean(name, names),
                                          "; ListOperators lists all of them"));
}

std::vector<std::string> Op::ListNames() {
  std::vector<std::string> names;
  for (const auto& [name, op] : GetRegistry().ops) names.push_back(name);
  return names;
}

size_t Op::IndexOf(absl::string_view key) {
  AttrKeys& keys = GetAttrKeys();
  MutexLock lock(keys.mu);
  return keys.indices.try_emplace(std::string(key), keys.indices.size()).first->second;
}

const Op::Attr* Op::Find(const Attrs& attrs, absl::string_view key) {
  for (const std::unique_ptr<Attr>& attr : attrs) {
    if (attr != nullptr && attr->key == key) return attr.get();
  }
  return nullptr;
}

const FCompute* Op::kernel(DeviceType device) const {
  static const OpMap<FCompute> cpu("FCompute<cpu>");
  static const OpMap<FCompute> gpu("FCompute<gpu>");
  return (device == DeviceType::kCpu ? cpu : gpu)[this];
}

uint32_t Op::num_inputs(const NodeAttrs& attrs) const { return Count(num_inputs_, attrs); }
uint32_t Op::num_outputs(const NodeAttrs& attrs) const { return Count(num_outputs_, attrs); }

uint32_t Op::num_visible_outputs(const NodeAttrs& attrs) const {
  static const OpMap<FNumVisibleOutputs> visible_of("FNumVisibleOutputs");
  const auto* visible = visible_of[this];
  return visible == nullptr ? num_outputs(attrs) : (*visible)(attrs);
}

std::vector<std::string> Op::input_names(const NodeAttrs& attrs, uint32_t num_inputs) const {
  if (const auto* names = GetAttr<FListInputNames>("FListInputNames")) return (*names)(attrs);
  std::vector<std::string> names;
  for (const ArgumentDoc& doc : arguments_) {
    if (doc.type == "NDArray" && names.size() < num_inputs) names.push_back(doc.name);
  }
  if (names.size() == num_inputs) return names;
  return HasAttr("key_var_num_args") ? Numbered("arg", num_inputs, true) : Numbered("data", num_inputs);
}

std::vector<std::string> Op::output_names(const NodeAttrs& attrs) const {
  if (const auto* names = GetAttr<FListOutputNames>("FListOutputNames")) return (*names)(attrs);
  return Numbered("output", num_outputs(attrs));
}

absl::Status Op::ParseAttrs(NodeAttrs* attrs) const {
  attrs->op = this;
  static const SchemaBase& no_parameters = *new SchemaBase;
  const absl::Status status = attr_parser_ ? attr_parser_(attrs) : no_parameters.Parse(nullptr, attrs->dict);
  if (!status.ok()) return Annotate(status, absl::StrCat("operator '", name_, "'"));
  // An attribute may be the count, and to name them all comes before counting those that are there.
  const uint32_t count = num_inputs(*attrs);
  if (count > kMostInputs && count != kVarg) {
    return absl::InvalidArgumentError(
        absl::StrCat("operator '", name_, "' would take ", count, " inputs, expected at most ", kMostInputs));
  }
  FindFacts(attrs);
  return absl::OkStatus();
}

std::shared_ptr<const OpFacts> Op::Share(OpFacts facts) const {
  std::call_once(first_facts_known_, [&] { first_facts_ = std::make_shared<const OpFacts>(facts); });
  if (facts != *first_facts_) return std::make_shared<const OpFacts>(std::move(facts));
  return {std::shared_ptr<const void>(), first_facts_.get()};  // The operator lives until exit: nobody counts who has its facts.
}

absl::Status Op::ParseAttrs(NodeAttrs* attrs, size_t num_inputs) const {
  static const OpMap<key_var_num_args> key_of("key_var_num_args");
  if (const auto* key = key_of[this]) {
    attrs->dict.try_emplace(*key, absl::StrCat(num_inputs));
  }
  return ParseAttrs(attrs);
}

OpRegistration::OpRegistration(const char* name, const char* file, int line) : file_(file), line_(line) {
  OpRegistry& registry = GetRegistry();
  std::unique_ptr<Op>& op = registry.ops[name];
  if (op == nullptr) {
    op = std::make_unique<Op>();
    op->name_ = name;
    if (!registry.names.emplace(name, op.get()).second) {
      registry.mistakes.push_back(absl::StrCat(Place(file, line), ": operator '", name, "' is an alias already"));
    }
  }
  op_ = op.get();
}

OpRegistration& OpRegistration::describe(std::string text) { return op_->description_ = std::move(text), *this; }

OpRegistration& OpRegistration::add_alias(const char* alias) {
  op_->aliases_.push_back(alias);
  if (!GetRegistry().names.emplace(alias, op_).second) {
    GetRegistry().mistakes.push_back(absl::StrCat(Place(file_, line_), ": alias '", alias, "' of '", op_->name(), "' is taken"));
  }
  return *this;
}

OpRegistration& OpRegistration::add_argument(std::string name, std::string type, std::string text) {
  op_->arguments_.push_back({std::move(name), std::move(type), true, "", std::move(text)});
  return *this;
}
OpRegistration& OpRegistration::add_arguments(std::vector<ArgumentDoc> docs) {
  for (ArgumentDoc& doc : docs) op_->arguments_.push_back(std::move(doc));
  return *this;
}
OpRegistration& OpRegistration::set_num_inputs(uint32_t n) { return op_->num_inputs_ = n, *this; }
OpRegistration& OpRegistration::set_num_inputs(FCount count) { return op_->num_inputs_ = std::move(count), *this; }
OpRegistration& OpRegistration::set_num_outputs(uint32_t n) { return op_->num_outputs_ = n, *this; }
OpRegistration& OpRegistration::set_num_outputs(FCount count) { return op_->num_outputs_ = std::move(count), *this; }
OpRegistration& OpRegistration::set_attr_parser(FAttrParser parser) { return op_->attr_parser_ = std::move(parser), *this; }

void OpRegistration::Set(absl::string_view key, std::any value) {
  const size_t index = Op::IndexOf(key);
  if (index >= op_->attrs_.size()) op_->attrs_.resize(index + 1);
  std::unique_ptr<Op::Attr>& attr = op_->attrs_[index];
  if (attr != nullptr) {
    GetRegistry().mistakes.push_back(
        absl::StrCat(Place(file_, line_), ": operator '", op_->name(), "' sets '", key, "' again; first at ", attr->place));
    return;
  }
  attr = std::make_unique<Op::Attr>(Op::Attr{std::string(key), std::move(value), Place(file_, line_)});
}

bool OpRegistration::DeclareAttr(const char* key, std::type_index type, const char* file, int line) {
  const auto [it, inserted] = GetRegistry().attrs.emplace(key, DeclaredAttr{type, Place(file, line)});
  if (!inserted && it->second.type != type) {
    GetRegistry().mistakes.push_back(
        absl::StrCat(Place(file, line), ": attribute key '", key, "' is declared with another type than at ", it->second.place));
  }
  return true;
}

absl::Status CheckRegistry() {
  const OpRegistry& registry = GetRegistry();
  std::vector<std::string> mistakes = registry.mistakes;
  std::vector<std::string> keys;
  for (const auto& [key, declared] : registry.attrs) keys.push_back(key);
  for (const auto& [name, op] : registry.ops) {
    for (const std::unique_ptr<Op::Attr>& set : op->attrs_) {
      if (set == nullptr) continue;
      const auto& [key, value, place] = *set;
      const auto declared = registry.attrs.find(key);
      if (declared == registry.attrs.end()) {
        mistakes.push_back(absl::StrCat(place, ": operator '", name, "' sets the unknown key '", key, "'", DidYouMean(key, keys)));
      } else if (declared->second.type != std::type_index(value.type())) {
        mistakes.push_back(absl::StrCat(place, ": operator '", name, "' sets '", key, "' with another type than declared at ",
                                        declared->second.place));
      }
    }
  }
  if (mistakes.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("operator registry: ", absl::StrJoin(mistakes, "; ")));
}

}  // namespace gluond
