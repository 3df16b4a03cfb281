package wire

import (
	"slices"
	"testing"
)

func TestWorkersOfOneHostAreAGroup(t *testing.T) {
	worker := func(node uint64, host, addr string) Member {
		return Member{Node: node, Role: RoleWorker, Rank: int32(node), Host: host, Addr: addr}
	}
	joining := worker(4, "a", "127.0.0.1:4#x")
	joining.State = MemberJoining
	leaving := worker(5, "a", "127.0.0.1:5#x")
	leaving.State = MemberLeaving
	for _, c := range []struct {
		name  string
		nodes []Member
		want  [][]uint64
	}{
		{"none", nil, nil},
		{"two hosts", []Member{worker(0, "a", "1:1#x"), worker(1, "b", "1:2#y"), worker(2, "a", "1:3#x"), worker(3, "b", "1:4#y")}, [][]uint64{{0, 2}, {1, 3}}},
		{"one on each", []Member{worker(0, "a", "1:1#x"), worker(1, "b", "1:2#y")}, nil},
		{"no address", []Member{worker(0, "a", ""), worker(1, "a", "1:2#x"), worker(2, "a", "1:3"), worker(3, "a", "#x")}, nil},
		{"two containers of one name", []Member{worker(0, "a", "1:1#x"), worker(1, "a", "1:1#y"), worker(2, "a", "1:2#y")}, [][]uint64{{1, 2}}},
		{"one host ID under two names", []Member{worker(0, "a", "1:1#x"), worker(1, "b", "1:2#x")}, nil},
		{"joining and leaving", []Member{worker(0, "a", "1:1#x"), leaving, joining}, [][]uint64{{0, 5}}},
		{"a server", []Member{{Node: 9, Role: RoleServer, Host: "a", Addr: "1:9#x"}, worker(0, "a", "1:1#x")}, nil},
	} {
		var got [][]uint64
		for _, g := range HostGroups(c.nodes) {
			var nodes []uint64
			for _, m := range g {
				nodes = append(nodes, m.Node)
			}
			got = append(got, nodes)
		}
		if !slices.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
