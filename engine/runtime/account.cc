#include "engine/runtime/account.h"

namespace gluond {
namespace {

thread_local AccountPtr current;

}  // namespace

const AccountPtr& CurrentAccount() { return current; }

ScopedAccount::ScopedAccount(AccountPtr account) : before_(std::exchange(current, std::move(account))) {}
ScopedAccount::~ScopedAccount() { current = std::move(before_); }

}  // namespace gluond
