// Versions of the product and of what it speaks.
#pragma once

namespace moonpool {

inline constexpr char kReleaseVersion[] = "0.1.0";

// Wire version (control and data). A peer of another major is refused; of another minor, served.
// Minor 1: kFlagConfirm (transport/frame.h), and the open grants in Free (membership.proto).
// Minor 2: newest_generation in Registered.
// Minor 3: Copy and PartsLost (membership.proto); NOT_LEADER names the leader; DOUBT (frame.h).
// Minor 4: spare grants (master.proto).
inline constexpr unsigned kWireMajor = 1;
inline constexpr unsigned kWireMinor = 4;

}  // namespace moonpool
