package optim

import "slices"

// A rule is what the package knows of a name: which fields of Config it uses,
// the defaults that differ between rules, what it remembers, and its loop.
type rule struct {
	// fields are those beyond what every rule uses.
	fields       []string
	learningRate float64
	epsilon      float64
	slots        func(c *Config) []string
	// update changes value by grad. a, b and c are the State's slots, in the
	// order of slots; one that the config does not need is nil.
	update func(p Pass, value, grad, a, b, c []float32)
}

func (r rule) uses(field string) bool { return slices.Contains(r.fields, field) }

func none(*Config) []string { return nil }

func momentum(c *Config) []string {
	if c.Momentum == 0 {
		return nil
	}
	return []string{"momentum"}
}

func moments(*Config) []string { return []string{"mean", "variance"} }

// rules holds every rule by name. It is never written.
var rules = map[string]rule{
	"sgd":     {[]string{"Momentum", "WeightDecay"}, 0.01, 0, momentum, sgd},
	"nag":     {[]string{"Momentum", "WeightDecay"}, 0.01, 0, momentum, nag},
	"adam":    {[]string{"Beta1", "Beta2", "Epsilon", "WeightDecay"}, 0.001, 1e-8, moments, adam},
	"adamw":   {[]string{"Beta1", "Beta2", "Epsilon", "WeightDecay"}, 0.001, 1e-8, moments, adamw},
	"adagrad": {[]string{"Epsilon", "InitialAccumulator", "WeightDecay"}, 0.01, 1e-10, accumulator, adagrad},
	"rmsprop": {[]string{"Rho", "Epsilon", "Momentum", "Centered", "WeightDecay"}, 0.001, 1e-8, rmspropSlots, rmsprop},
	"ftrl":    {[]string{"L1", "Beta", "WeightDecay"}, 0.1, 0, ftrlSlots, ftrl},
	"lars":    {[]string{"Momentum", "TrustCoefficient", "Epsilon", "WeightDecay"}, 0.1, 1e-8, momentum, sgd},
	"lamb":    {[]string{"Beta1", "Beta2", "Epsilon", "WeightDecay"}, 0.001, 1e-6, moments, lamb},
	"test":    {nil, 1, 0, none, test},
}

// Names returns the names of all rules, in the order in which they are listed
// to people.
func Names() []string {
	return []string{"sgd", "nag", "adam", "adamw", "adagrad", "rmsprop", "ftrl", "lars", "lamb", "test"}
}

func accumulator(*Config) []string { return []string{"accumulator"} }

func rmspropSlots(c *Config) []string {
	s := []string{"square"}
	if c.Centered {
		s = append(s, "mean")
	}
	if c.Momentum != 0 {
		s = append(s, "momentum")
	}
	return s
}

func ftrlSlots(*Config) []string { return []string{"z", "n"} }
