package tune

import "github.com/paragon-train/paragon/internal/member/control"

// readTraining reads the numbers that people look at from a job's profile.
func readTraining(profile string) (Training, error) {
	a, err := control.DecodeAdaptation(profile)
	if err != nil {
		return Training{}, err
	}
	return Training{a.GlobalBatch, a.LocalBatch, a.Accumulation, a.Goodput, a.Throughput, a.Gain, a.NoiseScale}, nil
}
