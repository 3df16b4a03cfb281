package outcomes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// Files is host_worker: the hosts that a job of changing hosts should have, as users read and edit
// the file.
type Files struct {
	listed []hosts.Host
}

// Listed is a host as the file has it; the zero Host: it has not.
func (f *Files) Listed(name string) hosts.Host {
	if i := f.find(name); i >= 0 {
		return f.listed[i]
	}
	return hosts.Host{}
}

func (f *Files) find(name string) int {
	return slices.IndexFunc(f.listed, func(h hosts.Host) bool { return h.String() == name })
}

// list adds a host, with its limits, or removes it.
func (f *Files) list(h hosts.Host, named bool) {
	i := f.find(h.String())
	switch {
	case !named && i >= 0:
		f.listed = slices.Delete(f.listed, i, i+1)
	case named && i >= 0:
		f.listed[i] = h
	case named:
		f.listed = append(f.listed, h)
	}
}

// text is the file's hosts in alphabetical order, for their order means nothing.
func (f *Files) text() string {
	var all []string
	for _, h := range f.listed {
		all = append(all, fmt.Sprintf("%s*%d", h, max(h.Slots, 1)))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
