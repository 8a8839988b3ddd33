// Components (initializers, losses, optimizers, schedules, metrics) between the wire and the engine's catalogs.

#ifndef SERVER_CODEC_COMPONENTS_H_
#define SERVER_CODEC_COMPONENTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/status_macros.h"
#include "engine/nn/catalog.h"
#include "gluond/v1/graph.pb.h"
#include "server/codec/attrs_codec.h"

namespace gluond::server {

// The component under its catalog's own name for it. An absent one (no name) is an empty Spec.
// INVALID_ARGUMENT: a name that the catalog does not know, an attribute's form.
template <class C>
absl::StatusOr<Spec> SpecFromProto(const v1::Component& component, const C& catalog) {
  if (component.name().empty()) {
    if (component.attributes().empty()) return Spec();
    return Invalid("a component with attributes needs a name");
  }
  const auto entry = catalog.Find(component.name());
  if (!entry.ok()) return Invalid(entry.status().message());
  Spec spec = {(*entry)->name, {}};
  ASSIGN_OR_RETURN(spec.attrs, Annotate(AttrsFromProto(component.attributes()), spec.type));
  return spec;
}

// Writes every attribute of the catalog's entry: as given, or its default.
template <class C>
void SpecToProto(const Spec& spec, const C& catalog, v1::Component* component) {
  component->set_name(spec.type);
  const auto entry = catalog.Find(spec.type);
  AttrDict attrs = spec.attrs;
  std::vector<ArgumentDoc> declared;
  if (entry.ok()) {
    declared = (*entry)->attributes;
    for (const ArgumentDoc& doc : (*entry)->attributes) {
      if (!doc.required) attrs.try_emplace(doc.name, doc.default_text);
    }
  }
  AttrsToProto(attrs, declared, component->mutable_attributes());
}

}  // namespace gluond::server

#endif  // SERVER_CODEC_COMPONENTS_H_
