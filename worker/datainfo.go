package worker

import (
	"fmt"
	"strings"
)

// DataInfo describes the data that a run reads, as far as it is known.
type DataInfo struct {
	// Examples is their number.
	Examples int `json:"examples,omitempty"`
	// Fingerprint tells one state of the data from another (data.Images.Fingerprint).
	Fingerprint string `json:"fingerprint,omitempty"`
	// Decoder tells versions of what decodes apart (data.Images.Decoder). Another one does not
	// keep a run from going on, since pixels differ by rounding alone; but then the run is no
	// longer the same to the last bit.
	Decoder string `json:"decoder,omitempty"`
	// Classes are their names by label.
	Classes []string `json:"classes,omitempty"`
}

// orNil is nil where nothing is known.
func (d *DataInfo) orNil() *DataInfo {
	if d.Fingerprint == "" {
		return nil
	}
	return d
}

// short leaves out what the fingerprint covers.
func (d *DataInfo) short() *DataInfo {
	return (&DataInfo{Examples: d.Examples, Fingerprint: d.Fingerprint, Decoder: d.Decoder}).orNil()
}

// differs says how other data differs from this; empty: not at all, or nothing is known of one of
// them.
func (d *DataInfo) differs(other *DataInfo) string {
	if other == nil || d.Fingerprint == "" || other.Fingerprint == "" || d.Fingerprint == other.Fingerprint {
		return ""
	}
	var what []string
	if d.Examples != other.Examples {
		what = append(what, fmt.Sprintf("%d examples here and %d there", d.Examples, other.Examples))
	}
	if d.Classes != nil && other.Classes != nil {
		what = append(what, otherClasses(d.Classes, other.Classes)...)
	}
	if what == nil {
		what = append(what, "the names, sizes or order of its files")
	}
	return strings.Join(what, "; ") + fmt.Sprintf(" (fingerprint %s here, %s there)", d.Fingerprint, other.Fingerprint)
}

// otherClasses says where two lists of classes differ first.
func otherClasses(here, there []string) (what []string) {
	if len(here) != len(there) {
		what = append(what, fmt.Sprintf("%d classes here and %d there", len(here), len(there)))
	}
	for i := range min(len(here), len(there)) {
		if here[i] != there[i] {
			return append(what, fmt.Sprintf("class %d is %q here and %q there", i, here[i], there[i]))
		}
	}
	return what
}
