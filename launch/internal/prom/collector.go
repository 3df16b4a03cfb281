package prom

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/exposition"
	"github.com/paragon-train/paragon/internal/telemetry"
)

// A collector makes the metrics of one scrape. It is a prometheus.Gatherer and not a Collector within a prometheus.Registry: of a thousand workers the
// registry's checks, for what many collectors might do wrong together, are 40 % of a scrape.
type collector struct {
	t        *control.Telemetry
	restarts int
	families map[string]*dto.MetricFamily
}

// Gather implements prometheus.Gatherer.
func (c *collector) Gather() ([]*dto.MetricFamily, error) {
	c.families = make(map[string]*dto.MetricFamily)
	c.collectJob()
	columns := columnsOf(c.t.Columns, c.t.Scores)
	blamed := blameIsKnown(c.t)
	for i := range c.t.Nodes {
		if n := &c.t.Nodes[i]; n.Rank >= 0 && n.AgeMillis >= 0 { // one that joins measures nothing yet
			c.collectNode(n, columns[n.Role], blamed)
		}
	}
	return slices.SortedFunc(maps.Values(c.families), func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) }), nil
}

// put adds one series. Those of one process share their labels, which are sorted.
func (c *collector) put(f *family, value float64, labels []*dto.LabelPair) {
	if f.Type == counter {
		c.add(f, &dto.Metric{Label: labels, Counter: &dto.Counter{Value: &value}})
	} else {
		c.add(f, &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: &value}})
	}
}

func (c *collector) add(f *family, m *dto.Metric) {
	out := c.families[f.Name]
	if out == nil {
		out = &dto.MetricFamily{Name: &f.Name, Help: &f.Help, Type: types[f.Type].Enum()}
		c.families[f.Name] = out
	}
	out.Metric = append(out.Metric, m)
}

var types = map[string]dto.MetricType{counter: dto.MetricType_COUNTER, gauge: dto.MetricType_GAUGE, inHistogram: dto.MetricType_HISTOGRAM}

// maxHost bounds the label host: the longest name that DNS has.
const maxHost = 255

// pairs makes labels of names and values in turns. The names are sorted.
func pairs(text ...string) (list []*dto.LabelPair) {
	for i := 0; i < len(text); i += 2 {
		value := strings.ToValidUTF8(text[i+1][:min(len(text[i+1]), maxHost)], "?")
		list = append(list, &dto.LabelPair{Name: &text[i], Value: &value})
	}
	return list
}

// blameIsKnown reports whether all servers have said whom they blame. A scheduler that was started again hears it from one after another: until it
// has all, the sums are below what they were, which Prometheus would take for counters that have begun again.
func blameIsKnown(t *control.Telemetry) bool {
	for i := range t.Nodes {
		if n := &t.Nodes[i]; n.Role == control.Server && n.State == control.NodeCounts && n.AgeMillis < 0 {
			return false
		}
	}
	return true
}

// columns are the families of an answer, by role.
type columns map[string][]column

// A column is where a family's values are.
type column struct {
	family     *family
	extra      *dto.LabelPair
	at         int
	buckets    [len(telemetry.StepBounds)]int // of a histogram; -1: there is none
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
				c.extra = pairs(info.Label, exposition.LabelValue(info.Label, index, scores))[0]
			}
			list[f.Role] = append(list[f.Role], c)
		}
	}
	return list
}

// collectNode makes the metrics of one process. Of one that has ended the counters are shown, so that their last growth is seen.
func (c *collector) collectNode(n *control.NodeTelemetry, columns []column, blamed bool) {
	labels := pairs("host", n.Host, "node", strconv.FormatUint(n.Node, 10), "rank", strconv.Itoa(int(n.Rank)))
	gone := n.State == control.NodeGone
	for i := range columns {
		x := &columns[i]
		if x.family.Type == inHistogram {
			if h := x.histogram(n.Values); h != nil {
				c.add(x.family, &dto.Metric{Label: labels, Histogram: h})
			}
			continue
		}
		value := float64(n.Values[x.at])
		switch {
		case math.IsNaN(value) || gone && x.family.Type == gauge:
		case x.extra != nil:
			c.put(x.family, value, with(labels, x.extra))
		default:
			c.put(x.family, value, labels)
		}
	}
	if n.Role == control.Worker && blamed {
		c.put(&blamedRounds, float64(n.BlamedRounds), labels)
		c.put(&blamedSeconds, float64(n.BlamedSeconds), labels)
	}
	if !gone {
		c.put(recordAge[n.Role], float64(n.AgeMillis)/1000, labels)
	}
}

// with puts one more label into its place.
func with(labels []*dto.LabelPair, extra *dto.LabelPair) []*dto.LabelPair {
	list := make([]*dto.LabelPair, 0, len(labels)+1)
	for _, l := range labels {
		if extra != nil && extra.GetName() < l.GetName() {
			list, extra = append(list, extra), nil
		}
		list = append(list, l)
	}
	if extra != nil {
		list = append(list, extra)
	}
	return list
}

// bounds are those of all buckets.
var bounds = telemetry.StepBounds

// histogram adds the buckets up: Prometheus counts in each what is in those below, too.
func (c *column) histogram(values control.Numbers) *dto.Histogram {
	count, sum := float64(values[c.count]), float64(values[c.sum])
	if math.IsNaN(count) || math.IsNaN(sum) {
		return nil
	}
	h := &dto.Histogram{SampleSum: &sum, Bucket: make([]*dto.Bucket, len(bounds))}
	buckets := make([]dto.Bucket, len(bounds))
	numbers := make([]uint64, len(bounds)+1)
	within := 0.0
	for i := range bounds {
		if at := c.buckets[i]; at >= 0 && !math.IsNaN(float64(values[at])) {
			within += float64(values[at])
		}
		numbers[i] = uint64(within)
		buckets[i].UpperBound, buckets[i].CumulativeCount = &bounds[i], &numbers[i]
		h.Bucket[i] = &buckets[i]
	}
	// The process may have counted one in a bucket, and not yet in all, when it made the record.
	numbers[len(bounds)] = uint64(max(count, within))
	h.SampleCount = &numbers[len(bounds)]
	return h
}
