package f32

import "testing"

func TestProductsOfBFloat16FollowTheEnvironment(t *testing.T) {
	if how := BFloat16Products(); !HasProducts(Active(), how) {
		t.Errorf("the way in use on %v is %v, which it does not have", Active(), how)
	}
	if tile := BFloat16Tiles(); tile.Pairs() != (BFloat16Products() != FloatProducts) {
		t.Errorf("the tile in use for %v reads pairs: %t", BFloat16Products(), tile.Pairs())
	}
	for _, p := range Available() {
		for how, want := range map[Products]bool{FloatProducts: true, PairProducts: HasBFloat16(p), TileProducts: p == AMX} {
			t.Setenv("PARAGON_CPU", p.String()+","+how.String())
			_, got, named, err := choice()
			if (err == nil) != want || named != want || want && got != how {
				t.Errorf("%v by %v: got %v, named %t, error %v; want it %t", p, how, got, named, err, want)
			}
		}
	}
}

// A busy machine must not change the choice: measured rates are far from the limit between both.
func TestChoiceOfPairsRepeats(t *testing.T) {
	if !HasBFloat16(Active()) {
		t.Skip("there are no products of pairs to choose from on ", Active())
	}
	first := pairsPay(Active())
	for range 10 {
		if pairsPay(Active()) != first {
			t.Fatalf("the choice of pairs is %t and then %t", first, !first)
		}
	}
}
