package machine

import "fmt"

// DisturbedShare is the largest share of a machine's cores that other processes may take in a spell
// of a ratio that is worth its name: threads that wait by spinning lose far more than others.
const DisturbedShare = 0.1

// Disturbed says why there is no ratio where others took so large a share of the cores; empty:
// there is one.
func Disturbed(others float64) string {
	if !(others > DisturbedShare) {
		return ""
	}
	return fmt.Sprintf("disturbed: other processes took %.2f of the cores, want at most %.2f", others, DisturbedShare)
}
