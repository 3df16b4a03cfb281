package run

import (
	"errors"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/launch/internal/command"
)

// What cannot run is refused before anything is started, with the limit that it meets.
func TestLimitsOfTheMachineAreNamed(t *testing.T) {
	for _, tc := range []struct {
		limits                  limits
		workers, servers, hosts int
		elsewhere               bool // the scheduler is
		want                    string
	}{
		{limits{}, 4999, 1, 0, false, ""},
		{limits{files: 1024}, 400, 100, 0, false, ""},
		{limits{files: 1024}, 500, 10, 0, false, "500 workers and 10 servers need 1036 open files on this machine for the pipes of its processes, and a process may have 1024 (ulimit -n)"},
		{limits{files: 1024}, 1000, 1, 100, false, ""},
		{limits{files: 1024}, 1000, 10, 100, false, "need 1026 open files on this machine for the scheduler's connections"},
		{limits{files: 1024}, 1000, 10, 100, true, ""},
		{limits{files: 1024}, 500, 1, 400, false, "need 1216 open files on this machine for the connections to 400 hosts"},
		{limits{tasks: 100, cause: "ulimit -u"}, 60, 7, 0, false, ""},
		{limits{tasks: 100, cause: "ulimit -u"}, 60, 8, 0, false, "60 workers and 8 servers need 104 processes and threads on this machine, and no more than 100 can be added (ulimit -u)"},
		{limits{tasks: 100, cause: "ulimit -u"}, 1000, 100, 80, false, ""},
		{limits{tasks: 100, cause: "ulimit -u"}, 1000, 100, 90, false, "need 102 processes"},
	} {
		err := tc.limits.check(tc.workers, tc.servers, tc.hosts, !tc.elsewhere)
		var usage command.UsageError
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || !errors.As(err, &usage)) {
			t.Errorf("%+v, %d workers, %d servers, %d hosts: %v, want %q", tc.limits, tc.workers, tc.servers, tc.hosts, err, tc.want)
		}
	}
	if l := machineLimits(); l.files > 0 && l.files < 16 || l.tasks > 0 && l.cause == "" {
		t.Errorf("this machine's limits are %+v", l)
	}
}
