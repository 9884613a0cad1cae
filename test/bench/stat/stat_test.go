package stat_test

import (
	"math"
	"slices"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/bench/stat"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1, 1, 1000}, 1},
	} {
		before := slices.Clone(c.values)
		if got := stat.Median(c.values); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.values, got, c.want)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("the values changed from %v to %v", before, c.values)
		}
	}
	if got := stat.Median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing: got %v, want NaN", got)
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]uint32, 100)
	for i := range hundred {
		hundred[i] = uint32(i + 1)
	}
	for _, c := range []struct {
		sorted []uint32
		q      float64
		want   uint32
	}{
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 0, 1}, {hundred, 1, 100}, {hundred, 0.001, 1},
		{[]uint32{7}, 0.5, 7}, {[]uint32{1, 2}, 0.5, 1}, {[]uint32{1, 2}, 0.51, 2}, {nil, 0.5, 0},
	} {
		if got := stat.Quantile(c.sorted, c.q); got != c.want {
			t.Errorf("quantile %v of %d values: got %v, want %v", c.q, len(c.sorted), got, c.want)
		}
	}
}

func TestSlope(t *testing.T) {
	if got := stat.Slope([]stat.Point{{0, 5}, {10, 25}, {20, 45}}); got != 2 {
		t.Errorf("points on a line: got %v, want 2", got)
	}
	if got := stat.Slope([]stat.Point{{0, 0}, {1, 3}, {2, 0}}); got != 0 {
		t.Errorf("points about a level: got %v, want 0", got)
	}
	for _, points := range [][]stat.Point{nil, {{1, 1}}} {
		if got := stat.Slope(points); !math.IsNaN(got) {
			t.Errorf("%v: got %v, want NaN", points, got)
		}
	}
}
