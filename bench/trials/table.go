package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// An outcome is what the log of a search says.
type outcome struct {
	way    way
	trials [2]course
}

// A course is one trial's.
type course struct {
	replicas, batches []value
	attempts          int
	began, ended      time.Duration
}

// A value is one that was reported from some time on.
type value struct {
	at time.Duration
	is int
}

func read(w way, dir string) (outcome, error) {
	o := outcome{way: w}
	err := tune.ReadLog(dir, func(e tune.Event) error {
		if e.Trial < 0 || e.Trial >= len(o.trials) {
			return fmt.Errorf("event %d is of trial %d, want 0 or 1", e.Seq, e.Trial)
		}
		c := &o.trials[e.Trial]
		switch e.Kind {
		case tune.EventStart:
			if c.attempts++; c.attempts == 1 {
				c.began = e.At
			}
		case tune.EventReport:
			for _, m := range []struct {
				name string
				list *[]value
			}{{"workers", &c.replicas}, {"global_batch", &c.batches}} {
				if x, ok := e.Metrics.Get(m.name); ok && (len(*m.list) == 0 || (*m.list)[len(*m.list)-1].is != int(x)) {
					*m.list = append(*m.list, value{e.At, int(x)})
				}
			}
		case tune.EventEnd:
			c.ended = e.At
		}
		return nil
	})
	return o, err
}

// end is how long both trials took.
func (o *outcome) end() time.Duration {
	return max(o.trials[0].ended, o.trials[1].ended) - min(o.trials[0].began, o.trials[1].began)
}

// text is "2; 4 from 13.1 s".
func text(list []value, began time.Duration) string {
	var parts []string
	for i, v := range list {
		if i == 0 {
			parts = append(parts, fmt.Sprint(v.is))
		} else {
			parts = append(parts, fmt.Sprintf("%d from %.1f s", v.is, (v.at-began).Seconds()))
		}
	}
	return strings.Join(parts, "; ")
}

// write writes the tables, in Markdown.
func write(w io.Writer, all []outcome) error {
	var b strings.Builder
	b.WriteString("| trials | trial | epochs | replicas | batch | restarts | ended |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, o := range all {
		began := min(o.trials[0].began, o.trials[1].began)
		for i, c := range o.trials {
			fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %d | %.1f s |\n", o.way.name, i, o.way.epochs[i], text(c.replicas, began), text(c.batches, began), c.attempts-1, (c.ended - began).Seconds())
		}
	}
	b.WriteString("\n| trials | both done | halves | ratio |\n| --- | --- | --- | --- |\n")
	for _, o := range all {
		i := slices.IndexFunc(all, func(h outcome) bool { return h.way.halves && h.way.epochs == o.way.epochs })
		if o.way.halves || o.way.remove || i < 0 { // those of halves have all slots to the end
			continue
		}
		halves := all[i].end()
		fmt.Fprintf(&b, "| %s | %.1f s | %.1f s | %.2f |\n", o.way.name, o.end().Seconds(), halves.Seconds(), o.end().Seconds()/halves.Seconds())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
