package exposition

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// ContentType is the format of a Text, for HTTP.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// A Label is what tells the series of a family apart.
type Label struct{ Name, Value string }

// A Text is series in Prometheus's text format, version 0.0.4.
type Text struct {
	names    []string
	families map[string]*[]byte
}

// family returns the text of a family. A new one begins with its help and its type.
func (t *Text) family(f *Family) *[]byte {
	text := t.families[f.Name]
	if text == nil {
		if t.families == nil {
			t.families = make(map[string]*[]byte)
		}
		help := strings.NewReplacer("\\", `\\`, "\n", `\n`).Replace(f.Help)
		text = new([]byte("# HELP " + f.Name + " " + help + "\n# TYPE " + f.Name + " " + f.Type + "\n"))
		t.families[f.Name] = text
		t.names = append(t.names, f.Name)
	}
	return text
}

// Add adds a series.
func (t *Text) Add(f *Family, value float64, labels ...Label) {
	text := t.family(f)
	*text = appendSeries(*text, f.Name, "", labels, value)
}

// AddHistogram adds a histogram whose bounds are telemetry.StepBounds. buckets says how many values
// each bucket has alone; in the text each one has those of the smaller buckets, too, as Prometheus
// wants it. count and sum are of all values. A process may have counted a value in its bucket and
// not yet in count when it made the record: then the text's count is that of the buckets.
func (t *Text) AddHistogram(f *Family, buckets []float64, count, sum float64, labels ...Label) {
	text := t.family(f)
	b, below := *text, 0.0
	bucket := append(slices.Clone(labels), Label{Name: "le"})
	le := &bucket[len(labels)].Value
	for i, n := range buckets {
		below += n
		*le = string(appendNumber(nil, telemetry.StepBounds[i]))
		b = appendSeries(b, f.Name, "_bucket", bucket, below)
	}
	count, *le = max(count, below), "+Inf"
	b = appendSeries(b, f.Name, "_bucket", bucket, count)
	b = appendSeries(b, f.Name, "_sum", labels, sum)
	*text = appendSeries(b, f.Name, "_count", labels, count)
}

// Names returns the names of the families, in the order in which they were added.
func (t *Text) Names() []string { return slices.Clone(t.names) }

// Write writes families by their names; those that the Text lacks are left out. The error is that
// of w.
func (t *Text) Write(w io.Writer, names []string) error {
	for _, name := range names {
		if text := t.families[name]; text != nil {
			if _, err := w.Write(*text); err != nil {
				return err
			}
		}
	}
	return nil
}

func appendSeries(b []byte, name, suffix string, labels []Label, value float64) []byte {
	b = append(append(b, name...), suffix...)
	separator := byte('{')
	for _, l := range labels {
		b = append(append(append(b, separator), l.Name...), '=')
		b = appendQuoted(b, l.Value)
		separator = ','
	}
	if len(labels) > 0 {
		b = append(b, '}')
	}
	return append(appendNumber(append(b, ' '), value), '\n')
}

// appendNumber appends a value as Prometheus writes it.
func appendNumber(b []byte, v float64) []byte {
	switch {
	case v == 0: // -0, too
		return append(b, '0')
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// maxLabel bounds a label's value: the longest name that DNS has.
const maxLabel = 255

var escapes = strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`)

func appendQuoted(b []byte, text string) []byte {
	text = strings.ToValidUTF8(text[:min(len(text), maxLabel)], "?")
	if strings.ContainsAny(text, "\\\n\"") {
		text = escapes.Replace(text)
	}
	return append(append(append(b, '"'), text...), '"')
}
