package wire

import "strings"

// HostSums returns the address at which a worker takes its host's gradients, and the ID of its
// host. Both are empty if it takes no part in sums within its host.
func (m *Member) HostSums() (addr, id string) {
	addr, id, ok := strings.Cut(m.Addr, "#")
	if m.Role != RoleWorker || !ok || addr == "" || id == "" {
		return "", ""
	}
	return addr, id
}

// HostGroups returns the workers that count and take part in sums within their hosts, those of each
// host together, all in the order of the list, which is that of ranks. A host with one such worker
// has no group.
func HostGroups(nodes []Member) [][]*Member {
	type host struct{ name, id string }
	var groups [][]*Member
	at := map[host]int{}
	for i := range nodes {
		m := &nodes[i]
		_, id := m.HostSums()
		if id == "" || !m.Counts() {
			continue
		}
		k, ok := at[host{m.Host, id}]
		if !ok {
			k = len(groups)
			at[host{m.Host, id}] = k
			groups = append(groups, nil)
		}
		groups[k] = append(groups[k], m)
	}
	several := groups[:0]
	for _, g := range groups {
		if len(g) > 1 {
			several = append(several, g)
		}
	}
	return several
}
