package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// A mode is one of package wire's: when a round closes, and in which order it adds.
type mode uint8

func (m mode) async() bool { return uint8(m) == wire.ModeAsync }

func (m mode) anyOrder() bool { return uint8(m) == wire.ModeAnyOrder }
