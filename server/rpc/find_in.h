// FindIn: the value that a map has for a key; null: it has none.
//
//   if (Series* const series = FindIn(of_model.series, client)) series->durable = 0;

#ifndef SERVER_RPC_FIND_IN_H_
#define SERVER_RPC_FIND_IN_H_

namespace gluond::server {

template <class Map, class Key>
auto* FindIn(Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace gluond::server

#endif  // SERVER_RPC_FIND_IN_H_
