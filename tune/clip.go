package tune

import (
	"fmt"
	"strings"
)

// maxText bounds messages in the log, in bytes.
const maxText = 8 << 10

// clip shortens a message for the log.
func clip(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + fmt.Sprintf("... (%d bytes)", len(text))
	}
	return strings.ToValidUTF8(text, "\ufffd")
}
