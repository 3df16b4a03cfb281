package cluster

import (
	"strings"
	"testing"
)

// A rank is one that the job has: a process with another one would take the place of nobody. One
// that joins a running job may have a rank that the job does not have yet, and none is below -1,
// which takes any.
func TestRanksAreThoseThatTheJobHas(t *testing.T) {
	good := Config{Scheduler: "127.0.0.1:1", NumWorkers: 2, NumServers: 3}
	for _, c := range []struct {
		role    Role
		rank    int
		joining bool
		// want is empty if the configuration is good.
		want string
	}{
		{Worker, -2, false, "cluster: Rank -2: want 0 to 1, or -1 for any"},
		{Worker, -1, false, ""},
		{Worker, 0, false, ""},
		{Worker, 1, false, ""},
		{Worker, 2, false, "cluster: Rank 2: want 0 to 1, or -1 for any"},
		{Worker, 2, true, ""},
		{Worker, 100, true, ""},
		{Server, -2, false, "cluster: Rank -2: want 0 to 2, or -1 for any"},
		{Server, -2, true, "cluster: Rank -2: want 0 to 2, or -1 for any"},
		{Server, -1, false, ""},
		{Server, 2, false, ""},
		{Server, 3, false, "cluster: Rank 3: want 0 to 2, or -1 for any"},
		{Server, 3, true, ""},
		// There is one scheduler, whatever its rank is called.
		{Scheduler, 7, false, ""},
	} {
		cfg := good
		cfg.Role, cfg.Rank, cfg.Joining = c.role, c.rank, c.joining
		err := cfg.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v %d, joining %v:\n got %v\nwant %s", c.role, c.rank, c.joining, err, c.want)
		}
	}
}
