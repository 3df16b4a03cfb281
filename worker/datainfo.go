package worker

import (
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/data"
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

// describe says what is known of a data set. Only one that has a fingerprint is described: others
// lie in the program's own memory.
func describe(dataset data.Dataset) (d DataInfo) {
	f, ok := dataset.(interface{ Fingerprint() string })
	if !ok {
		return d
	}
	d.Examples, d.Fingerprint = dataset.Len(), f.Fingerprint()
	if c, ok := dataset.(interface{ Decoder() string }); ok {
		d.Decoder = c.Decoder()
	}
	if c, ok := dataset.(interface{ Classes() []string }); ok {
		d.Classes = c.Classes()
	}
	return d
}

// dataOf describes what a feed reads.
func dataOf(feed Feed) (d DataInfo) {
	if f, ok := feed.(DescribedFeed); ok {
		d = f.Data()
	}
	return d
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

// checkData is an error if the checkpoint is of a run that read other data than this one does.
func (c *checkpointFolder) checkData(m manifest, data *DataInfo) error {
	if what := data.differs(m.Data); what != "" {
		return noResume("worker: checkpoint %s is of a run with other data: %s; resume with the data as it was, or start a new run with ImportModel", c.uri(m.Steps), what)
	}
	if m.Data != nil && m.Data.Decoder != data.Decoder && data.Decoder != "" {
		c.logger.Warn("the checkpoint is of a run that decoded images with another version: pixels may differ by rounding, so the run does not go on to the last bit",
			"then", m.Data.Decoder, "now", data.Decoder)
	}
	return nil
}
