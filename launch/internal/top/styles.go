package top

import "charm.land/lipgloss/v2"

// styles use the 16 colours that each terminal has chosen for its own background, and none that is
// hard to read on light or dark ones. What a colour says is said by a word or a sign, too.
type styles struct{ title, head, faint, alarm, chosen, compute, wait, data, line lipgloss.Style }

// newStyles makes the styles.
func newStyles() styles {
	s := lipgloss.NewStyle
	return styles{
		title: s().Bold(true), head: s().Underline(true), faint: s().Faint(true), alarm: s().Bold(true).Foreground(lipgloss.Red), chosen: s().Reverse(true),
		compute: s().Foreground(lipgloss.Green), wait: s().Foreground(lipgloss.Magenta), data: s().Foreground(lipgloss.Cyan), line: s().Foreground(lipgloss.Cyan),
	}
}
