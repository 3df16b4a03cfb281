package prom

import (
	"math"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/exposition"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// A collector makes the metrics of one scrape.
type collector struct {
	t        *control.Telemetry
	restarts int
	text     exposition.Text
}

// columns are the families of an answer, by role.
type columns map[string][]column

// A column is where a family's values are.
type column struct {
	family *family

	// extra is a label besides those of the process; nil: there is none.
	extra *exposition.Label

	at int

	// buckets are the columns of a histogram; -1: there is none.
	buckets [len(telemetry.StepBounds)]int

	count, sum int
}

func columnsOf(values []control.Value, scores []string) columns {
	at := func(m telemetry.Metric, index int) int {
		name := m.String()
		for i, v := range values {
			if v.Metric == name && v.Index == index {
				return i
			}
		}
		return -1
	}
	list := make(columns)
	for k := range exposition.Families {
		f := &exposition.Families[k]
		info, _ := f.Metric.Info()
		if h, ok := exposition.Histograms[f.Metric]; ok {
			c := column{family: f, count: at(h.Count, 0), sum: at(h.Sum, 0)}
			for i := range c.buckets {
				c.buckets[i] = at(f.Metric, i)
			}
			if c.count >= 0 && c.sum >= 0 {
				list[f.Role] = append(list[f.Role], c)
			}
			continue
		}
		for index := range info.Width {
			c := column{family: f, at: at(f.Metric, index)}
			if c.at < 0 {
				continue
			}
			if info.Label != "" {
				c.extra = &exposition.Label{Name: info.Label, Value: exposition.LabelValue(info.Label, index, scores)}
			}
			list[f.Role] = append(list[f.Role], c)
		}
	}
	return list
}

// collectNode makes the metrics of one process. Of one that has ended the counters are shown, so
// that their last growth is seen.
func (c *collector) collectNode(n *control.NodeTelemetry, columns []column, blamed bool) {
	labels := exposition.Process{Rank: int(n.Rank), Host: n.Host, Node: n.Node}.Labels()
	gone := n.State == control.NodeGone
	for i := range columns {
		x := &columns[i]
		if x.family.Type == inHistogram {
			c.addHistogram(x, n.Values, labels)
			continue
		}
		value := float64(n.Values[x.at])
		switch {
		case math.IsNaN(value) || gone && x.family.Type == gauge:
		case x.extra != nil:
			c.text.Add(x.family, value, with(labels, *x.extra)...)
		default:
			c.text.Add(x.family, value, labels...)
		}
	}
	if n.Role == control.Worker && blamed {
		c.text.Add(&blamedRounds, float64(n.BlamedRounds), labels...)
		c.text.Add(&blamedSeconds, float64(n.BlamedSeconds), labels...)
	}
	if !gone {
		c.text.Add(recordAge[n.Role], float64(n.AgeMillis)/1000, labels...)
	}
}

// with puts one more label into its place by the alphabet.
func with(labels []exposition.Label, extra exposition.Label) []exposition.Label {
	at, _ := slices.BinarySearchFunc(labels, extra, func(a, b exposition.Label) int { return strings.Compare(a.Name, b.Name) })
	return slices.Insert(slices.Clip(labels), at, extra)
}

func (c *collector) addHistogram(x *column, values control.Numbers, labels []exposition.Label) {
	count, sum := float64(values[x.count]), float64(values[x.sum])
	if math.IsNaN(count) || math.IsNaN(sum) {
		return
	}
	var buckets [len(telemetry.StepBounds)]float64
	for i, at := range x.buckets {
		if at >= 0 && !math.IsNaN(float64(values[at])) {
			buckets[i] = float64(values[at])
		}
	}
	c.text.AddHistogram(x.family, buckets[:], count, sum, labels...)
}
