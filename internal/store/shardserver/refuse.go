package shardserver

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

func refuse(code wire.Code, format string, args ...any) error {
	return &transport.Refusal{Code: code, Text: "server: " + fmt.Sprintf(format, args...)}
}
