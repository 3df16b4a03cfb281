package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// newOutput is an output for a part that is tested without the core.
func newOutput() *output { return &output{now: time.Unix(1000, 0)} }

// did are the actions since it was asked last, in words.
func did(o *output) (list []string) {
	for _, a := range o.take() {
		switch a := a.(type) {
		case tell:
			list = append(list, fmt.Sprintf("%s: %s", strings.ToLower(a.level.String()), a.text))
		case connect:
			list = append(list, fmt.Sprintf("connect %d: %s", a.id, a.host))
		case startProcess:
			list = append(list, fmt.Sprintf("start %d on machine %d", a.process, a.machine))
		case ask:
			list = append(list, fmt.Sprintf("ask %d: %s", a.id, a.Op))
		case announceWorker:
			list = append(list, "announce a worker on "+a.host.String())
		case listHost:
			list = append(list, fmt.Sprintf("list %s: %t", a.host, a.named))
		case signalProcess:
			list = append(list, fmt.Sprintf("signal %d: %s", a.process, a.signal))
		case open:
		default:
			list = append(list, fmt.Sprintf("%s %v", strings.TrimPrefix(fmt.Sprintf("%T", a), "job."), a))
		}
	}
	return list
}

// wantDid checks what an output was given.
func wantDid(t *testing.T, o *output, what string, want ...string) {
	t.Helper()
	if got := did(o); !slices.Equal(got, want) {
		t.Errorf("%s: got\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// at is a host.
func at(name string) hosts.Host { return hosts.Host{Name: name} }

// worker is the node of a worker that runs.
func worker(process uint32, host string) *Node {
	return &Node{Role: roleWorker, Rank: int(process), Host: host, host: at(host), process: process, PID: 1, member: true}
}

// afterExit is the node after it has ended with a code.
func afterExit(n *Node, code int) *Node {
	n.ended, n.Exit.Code = true, code
	return n
}
