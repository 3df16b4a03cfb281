package method

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
)

// infos reads agents: NAME[*SLOTS][/RUNS].
func infos(text string) (all []dialin.Info) {
	for word := range strings.FieldsSeq(text) {
		var i dialin.Info
		i.Name, i.Runs, _ = strings.Cut(word, "/")
		if name, slots, ok := strings.Cut(i.Name, "*"); ok {
			i.Name, i.Slots = name, int(slots[0]-'0')
		}
		all = append(all, i)
	}
	return all
}

// The job begins with the first agents that suffice; whoever waits for the others is told how many
// there are.
func TestAgentsThatSuffice(t *testing.T) {
	for _, tc := range []struct {
		agents, workers int
		there           string

		// want is empty if they do not suffice.
		want string

		text string
	}{
		{4, 4, "", "", "0 of 4 agents are there"},
		{1, 1, "", "", "0 of 1 agents are there"},
		{4, 4, "n1 n3", "", "2 of 4 agents are there: n1, n3"},
		{2, 4, "n1", "", "1 of 2 agents is there: n1"},
		{2, 4, "n1 n2 n10", "n1 n2", "3 of 2 agents are there: n1, n2, n10"},
		{2, 1, "n1/servers n2/workers", "n1 n2", "2 of 2 agents are there: n1, n2"},
		{0, 3, "n1 n2", "", "2 agents with slots for 2 of 3 workers are there: n1, n2"},
		{0, 1, "", "", "0 agents with slots for 0 of 1 worker are there"},
		{0, 3, "n1*2", "", "1 agent with slots for 2 of 3 workers is there: n1"},
		{0, 3, "n1*2 n2 n3", "n1 n2", "3 agents with slots for 4 of 3 workers are there: n1, n2, n3"},
		{0, 1, "n1/workers", "", "1 agent, none of which runs servers, is there: n1"},
		{0, 1, "n1/workers n2/workers n3/servers n4", "n1 n3", "4 agents with slots for 3 of 1 worker are there: n1, n2, n3, n4"},
		{0, 2, "n1/servers n2", "", "2 agents with slots for 1 of 2 workers are there: n1, n2"},
	} {
		a := NewAgents(AgentsConfig{Agents: tc.agents, Workers: tc.workers})
		there := infos(tc.there)
		var names []string
		for _, i := range a.choose(there) {
			names = append(names, i.Name)
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("--agents %d -n %d with %q: chose %q, want %q", tc.agents, tc.workers, tc.there, got, tc.want)
		}
		if got := a.whoIsThere(there); got != tc.text {
			t.Errorf("--agents %d -n %d with %q: got %q, want %q", tc.agents, tc.workers, tc.there, got, tc.text)
		}
	}
}

func TestLongListsOfAgentsAreCut(t *testing.T) {
	all := infos(strings.Repeat("n ", maxNames+3))
	if got, want := NewAgents(AgentsConfig{Agents: 30}).whoIsThere(all), "n and 3 more"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
}
