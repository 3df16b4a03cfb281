// Package shown writes what comes from outside, such as the names of keys and tensors, as messages
// show it.
package shown

import (
	"fmt"
	"strconv"
	"strings"
)

// most is how many bytes of a name a message repeats.
const most = 100

// Name is a name from outside, quoted: of a long one the beginning and the length.
func Name(name string) string {
	if len(name) <= most {
		return strconv.Quote(name)
	}
	return fmt.Sprintf("%q... (%d bytes)", strings.ToValidUTF8(name[:most], "?"), len(name))
}

// Cut is a text from outside as it is: of a long one the beginning and the length.
func Cut(text string) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(text[:most], "?"), len(text))
}

// Names are names from outside: the first few.
func Names(names []string) string {
	const most = 8
	quoted := make([]string, min(len(names), most))
	for i := range quoted {
		quoted[i] = Name(names[i])
	}
	text := strings.Join(quoted, " ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return "[" + text + "]"
}
