package job

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// sentences are what the AWS elastic launcher prints at its start; tools may look for them.
func sentences(files *hostworker.Files, nodes []*Node) string {
	if files == nil {
		return ""
	}
	var b strings.Builder
	log := "Created worker host log file"
	if !files.NewLog {
		log = "Appending to worker host log file"
	}
	fmt.Fprintf(&b, "Created worker host file %s\n%s %s\n", files.Path, log, files.LogPath)
	for _, role := range []string{roleServer, roleWorker} {
		for _, n := range nodes {
			if n.Role == role {
				fmt.Fprintf(&b, "Launching %s node at ip: %s\n", role, n.host.Name)
			}
		}
	}
	return b.String()
}

// startTable shows who runs where. Schedulers that were started in vain have rows, too.
func startTable(job string, a showStart) string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %s: scheduler at %s:%s\n", job, a.address, a.port)
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "ROLE\tRANK\tHOST\tPID")
	for _, n := range a.nodes {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\n", n.Role, rankText(n), n.Host, n.PID)
	}
	t.Flush()
	return b.String()
}

// endTable shows how each process ended, and what became of those that ended while the job went on.
// What their exit code cannot say is added: who asked for it, or that nobody missed them.
func endTable(r *Result) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "ROLE\tRANK\tHOST\tPID\tENDED\tTIME\tLAST LINE")
	for _, n := range r.Nodes {
		ended := n.Exit.String()
		switch {
		case n.asked():
			ended += ", " + outside
		// How is of no interest.
		case n.fate.code == control.FateUnneeded:
			ended = n.fate.words(n)
		case n.fate.code != "":
			ended += ", " + n.fate.words(n)
		case n.stopped && !n.Exit.OK():
			ended += ", as asked"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", n.Role, rankText(n), n.Host, n.PID, ended, elapsed(n.Exit.Elapsed), cut(n.Last, 60))
	}
	t.Flush()
	if r.processesLeftOut > 0 {
		fmt.Fprintf(&b, "%d earlier processes that ended are not shown\n", r.processesLeftOut)
	}
	// tabwriter pads the last column of rows with an empty last line.
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func rankText(n *Node) string {
	if n.Role == roleScheduler {
		return "-"
	}
	return fmt.Sprint(n.Rank)
}

func elapsed(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 10*time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// cut makes s one line of at most n characters, without terminal escapes and control characters.
func cut(s string, n int) string {
	var b strings.Builder
	count, escape := 0, false
	for _, r := range s {
		switch {
		case r == 0x1b:
			escape = true
			continue
		case escape:
			escape = !unicode.IsLetter(r)
			continue
		case r == '\t':
			r = ' '
		case r == utf8.RuneError || unicode.IsControl(r):
			continue
		}
		if count++; count > n {
			return strings.TrimRight(b.String(), " ") + "…"
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}
