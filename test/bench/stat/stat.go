// Package stat is the little statistics that the benchmark's figures need.
package stat

import (
	"cmp"
	"math"
	"slices"
)

// Median returns the middle value, the mean of the two middle ones where their
// number is even, and NaN where there are none. It leaves values as they are.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Quantile returns the least of the sorted values that at least the share q of
// them do not exceed, and zero where there are none.
func Quantile[T cmp.Ordered](sorted []T, q float64) T {
	var zero T
	if len(sorted) == 0 {
		return zero
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Point is one place on a curve.
type Point struct{ X, Y float64 }

// Slope returns by how much y grows with x on the straight line that fits the
// points best (least squares), and NaN where no line fits.
func Slope(points []Point) float64 {
	var x, y float64
	for _, p := range points {
		x += p.X
		y += p.Y
	}
	n := float64(len(points))
	x /= n
	y /= n
	var over, under float64
	for _, p := range points {
		over += (p.X - x) * (p.Y - y)
		under += (p.X - x) * (p.X - x)
	}
	return over / under
}
