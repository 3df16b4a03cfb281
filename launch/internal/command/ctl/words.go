package ctl

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/metrics"
)

// stateWords are the words of tables for the states of a process or of the rank of a server.
func stateWords(state string) string {
	switch state {
	case control.NodeCounts, control.RankHere:
		return "in the job"
	case control.NodeReady:
		return "ready to join"
	case control.RankComing:
		return "starting"
	}
	return strings.ToLower(state)
}

// because puts a reason into brackets; an empty one is nothing.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// ago is a time as people say it.
func ago(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// A filled is a table with the number of its rows.
type filled struct {
	metrics.Table
	rows int
}

// writeTables writes the tables that have rows, with an empty line before each.
func writeTables(w io.Writer, tables []filled) error {
	for _, t := range tables {
		if t.rows == 0 {
			continue
		}
		fmt.Fprintln(w)
		if _, err := t.WriteTo(w); err != nil {
			return err
		}
	}
	return nil
}
