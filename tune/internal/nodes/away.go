package nodes

import (
	"fmt"
	"strings"
)

// awayHost is a host that is set aside, and why.
type awayHost struct {
	name string
	why  error
}

// textOf names hosts with why each is away.
func textOf(away []awayHost) string {
	var all []string
	for _, h := range away {
		all = append(all, fmt.Sprintf("%s: %v", h.name, h.why))
	}
	return strings.Join(all, "; ")
}
