// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/exchange_mode.h"

#include <cstdlib>
#include <string_view>

namespace trainrt {

ExchangeMode exchangeMode() {
  const char *text = std::getenv("TRAINRT_EXCHANGE");
  const std::string_view mode = text ? text : "";
  return mode == "inline"   ? ExchangeMode::Inline
         : mode == "always" ? ExchangeMode::Always
         : mode == "nccl"   ? ExchangeMode::Nccl
                            : ExchangeMode::Beside;
}

} // namespace trainrt
