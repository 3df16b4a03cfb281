package wire

import (
	"fmt"
	"unicode/utf8"

	"github.com/paragon-train/paragon/internal/observe/shown"
)

// reservedName is the name that safetensors files reserve.
const reservedName = "__metadata__"

// Shown is a name from outside, quoted, as a message shows it: of a long one the beginning and the
// length.
func Shown(name string) string { return shown.Name(name) }

// CheckKeyName returns an error for an invalid name of a key. Values are saved under their keys'
// names in safetensors files, whose header is JSON: a name is UTF-8, and not the one that the
// header uses itself.
func CheckKeyName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("got an empty name, want 1 to %d bytes", MaxKeyName)
	case len(name) > MaxKeyName:
		return fmt.Errorf("got a name of %d bytes, want 1 to %d", len(name), MaxKeyName)
	case !utf8.ValidString(name):
		return fmt.Errorf("got the name %s, which is not UTF-8: it could not be saved", Shown(name))
	case name == reservedName:
		return fmt.Errorf("got the name %s, which safetensors files keep for themselves: it could not be saved", name)
	}
	return nil
}
