package main

import "testing"

// A search ends by its deadline, says what it could not do, and a resume keeps the deadline or has
// a later one.
func TestTuneEndsByItsDeadline(t *testing.T) {
	t.Parallel()
	dir := counting(t, "0.4", "deadline: 2s")
	out, _ := tuneIn(t, dir, 0, "study.yaml")
	missed := `^deadline of \d{4}-\S+: \d of 6 trials were not started`
	wantText(t, "the output", out, `; deadline \d{4}-`, missed, `^best: `, `^to go on: launch tune --resume, with a later deadline$`)
	replayed, _ := tuneIn(t, dir, 0, "replay", "runs/count")
	if hashOf(t, replayed) != hashOf(t, out) {
		t.Errorf("the hash of the search and of its replay differ:\n%s%s", out, replayed)
	}
	shown, _ := tuneIn(t, dir, 0, "show", "runs/count")
	wantText(t, "show", shown, missed)
	again, _ := tuneIn(t, dir, 0, "--resume", "study.yaml")
	wantText(t, "a resume with the same deadline", again, missed)
	all, _ := tuneIn(t, dir, 0, "--resume", "--deadline", "1h", "study.yaml")
	wantText(t, "a resume with a later deadline", all, `^6 of 6 trials: `, `^best: trial-000005 with value 24$`)
	replayed, _ = tuneIn(t, dir, 0, "replay", "runs/count")
	if hashOf(t, replayed) != hashOf(t, all) {
		t.Errorf("the hash of the whole search and of its replay differ:\n%s%s", all, replayed)
	}
	_, errs := tuneIn(t, dir, 2, "--deadline", "teatime", "study.yaml")
	wantText(t, "a wrong deadline", errs, `--deadline: got "teatime", want a time of the day, such as 18:00`)
}
