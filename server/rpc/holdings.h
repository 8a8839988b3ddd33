// Holdings: what callers hold of something that has a bound, as lists of items, each caller's oldest first. A holder is
// one identity, and belongs to a tenant; those of no tenant have an empty name for one. So it can be asked who holds most:
// the tenant first, and then the identity within it. Not thread-safe.

#ifndef SERVER_RPC_HOLDINGS_H_
#define SERVER_RPC_HOLDINGS_H_

#include <algorithm>
#include <cstddef>
#include <list>
#include <map>
#include <string>
#include <utility>

namespace gluond::server {

struct Holder {
  std::string tenant;
  std::string identity;
};

template <class Item>
class Holdings {
 public:
  using Place = typename std::list<Item>::iterator;
  struct OfIdentity {
    std::list<Item> items;
    size_t size = 0;
  };
  // Each of them has items.
  struct OfTenant {
    std::map<std::string, OfIdentity, std::less<>> identities;
    size_t size = 0;

    const OfIdentity& largest() const { return LargestOf(identities); }
  };

  Place Add(const Holder& holder, Item item, size_t size = 1) {
    OfTenant& tenant = tenants_[holder.tenant];
    OfIdentity& identity = tenant.identities[holder.identity];
    tenant.size += size;
    identity.size += size;
    size_ += size;
    return identity.items.insert(identity.items.end(), std::move(item));
  }
  void Remove(const Holder& holder, Place place, size_t size = 1) {
    const auto tenant = tenants_.find(holder.tenant);
    const auto identity = tenant->second.identities.find(holder.identity);
    tenant->second.size -= size;
    identity->second.size -= size;
    size_ -= size;
    identity->second.items.erase(place);
    if (identity->second.items.empty()) tenant->second.identities.erase(identity);
    if (tenant->second.identities.empty()) tenants_.erase(tenant);
  }
  // Makes it the holder's newest.
  void Renew(const Holder& holder, Place place) {
    std::list<Item>& items = tenants_.find(holder.tenant)->second.identities.find(holder.identity)->second.items;
    items.splice(items.end(), items, place);
  }

  size_t size() const { return size_; }
  const std::map<std::string, OfTenant, std::less<>>& tenants() const { return tenants_; }
  // Requires: there are items.
  const OfTenant& largest() const { return LargestOf(tenants_); }

 private:
  template <class Map>
  static const auto& LargestOf(const Map& map) {
    return std::max_element(map.begin(), map.end(), [](const auto& a, const auto& b) { return a.second.size < b.second.size; })
        ->second;
  }

  std::map<std::string, OfTenant, std::less<>> tenants_;
  size_t size_ = 0;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_HOLDINGS_H_
