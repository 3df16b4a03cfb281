package job

import (
	"fmt"
	"slices"
	"strings"
)

// maxEnded is how many processes that came and went are remembered one by one, for the table at the end: the newest.
const maxEnded = 1000

// maxLast bounds the last line that is kept of a process, in bytes.
const maxLast = 8 << 10

// forget forgets the oldest processes that have ended while the job went on, and hosts of which nothing is left.
func (w *watch) forget() {
	over := -maxEnded
	for _, n := range w.run.nodes {
		if n.ended {
			over++
		}
	}
	if over <= 0 {
		return
	}
	w.run.nodes = slices.DeleteFunc(w.run.nodes, func(n *Node) bool {
		if over <= 0 || !n.ended || n.fate.code == "" || n.Role == roleScheduler || n == w.first || n == w.culprit || n == w.lost {
			return false
		}
		over--
		w.run.forgotten++
		return true
	})
	here := make(map[string]bool)
	for _, n := range w.run.nodes {
		here[n.host.String()] = true
	}
	for g := range w.guests {
		here[g.host.String()] = true
	}
	for host := range w.leaving {
		if !here[host] && w.coming[host] == 0 {
			delete(w.leaving, host)
			delete(w.waves, host)
			delete(w.coming, host)
			delete(w.here, host)
		}
	}
}

// forgottenText says of how many processes the table has no row.
func (r *run) forgottenText() string {
	if r.forgotten == 0 {
		return ""
	}
	return fmt.Sprintf("%d earlier processes that ended are not shown\n", r.forgotten)
}

// kept is what is remembered of a last line.
func kept(last string) string {
	if len(last) > maxLast {
		last = last[:maxLast]
	}
	return strings.Clone(last)
}
