package report

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/holdfast-mcp/holdfast/test/bench/stat"
)

// Chart is a drawing of lines over two axes.
type Chart struct {
	File  string // its name, ending in .svg
	Title string
	X, Y  string // what the axes show
	LogX  bool
	Lines []Line
}

// Line is one line of a chart.
type Line struct {
	Name   string
	Dashed bool
	Points []stat.Point
}

// Measures of the drawing in pixels.
const (
	width, height            = 760, 420
	left, right, top, bottom = 70, 20, 44, 50
)

// colours are told apart in print and by most colour-blind readers.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#666666"}

// SVG draws the chart. Lines without points are left out.
func (c Chart) SVG() string {
	x, y := c.axes()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="15" fill="#111111">%s</text>`+"\n", left, html.EscapeString(c.Title))
	for _, tick := range x.ticks() {
		at := x.place(tick)
		fmt.Fprintf(&b, `<path d="M%.1f %d V%d" stroke="#dddddd"/><text x="%.1f" y="%d" text-anchor="middle" fill="#333333">%s</text>`+"\n",
			at, top, height-bottom, at, height-bottom+17, label(tick))
	}
	for _, tick := range y.ticks() {
		at := y.place(tick)
		fmt.Fprintf(&b, `<path d="M%d %.1f H%d" stroke="#dddddd"/><text x="%d" y="%.1f" text-anchor="end" fill="#333333">%s</text>`+"\n",
			left, at, width-right, left-7, at+4, label(tick))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#111111">%s</text>`+"\n",
		(left+width-right)/2, height-12, html.EscapeString(c.X))
	fmt.Fprintf(&b, `<text transform="translate(18 %d) rotate(-90)" text-anchor="middle" fill="#111111">%s</text>`+"\n",
		(top+height-bottom)/2, html.EscapeString(c.Y))
	for i, line := range c.Lines {
		if len(line.Points) == 0 {
			continue
		}
		c.draw(&b, i, line, x, y)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (c Chart) draw(b *strings.Builder, i int, line Line, x, y axis) {
	colour, dash := colours[i%len(colours)], ""
	if line.Dashed {
		dash = ` stroke-dasharray="6 4"`
	}
	b.WriteString(`<polyline fill="none" stroke-width="2" stroke="` + colour + `"` + dash + ` points="`)
	for _, p := range line.Points {
		fmt.Fprintf(b, "%.1f,%.1f ", x.place(p.X), y.place(p.Y))
	}
	b.WriteString(`"/>` + "\n")
	at := top + 14 + 18*i
	fmt.Fprintf(b, `<path d="M%d %d h24" stroke-width="2" stroke="%s"%s/><text x="%d" y="%d" fill="#111111">%s</text>`+"\n",
		left+12, at, colour, dash, left+42, at+4, html.EscapeString(line.Name))
}

// axis turns values into places.
type axis struct {
	low, high float64
	from, to  float64 // places of low and high
	log       bool
}

// axes are as long as all lines need; those that are not logarithmic begin at
// zero, so that the eye is not misled.
func (c Chart) axes() (x, y axis) {
	x = axis{from: left, to: width - right, log: c.LogX, low: math.Inf(1), high: math.Inf(-1)}
	y = axis{from: height - bottom, to: top}
	for _, line := range c.Lines {
		for _, p := range line.Points {
			x.low, x.high = min(x.low, p.X), max(x.high, p.X)
			y.high = max(y.high, p.Y)
		}
	}
	if !c.LogX {
		x.low = 0
	}
	if !(x.high > x.low) {
		x.low, x.high = 1, 10
	}
	if y.high <= 0 {
		y.high = 1
	}
	return x, y
}

func (a axis) place(value float64) float64 {
	share := (value - a.low) / (a.high - a.low)
	if a.log {
		share = math.Log(value/a.low) / math.Log(a.high/a.low)
	}
	return a.from + share*(a.to-a.from)
}

// ticks are round values that lie on the axis: steps of 1, 2 or 5 times a
// power of ten.
func (a axis) ticks() []float64 {
	var ticks []float64
	if a.log {
		for power := math.Pow(10, math.Floor(math.Log10(a.low))); power <= a.high; power *= 10 {
			for _, factor := range []float64{1, 2, 5} {
				if tick := power * factor; tick >= a.low && tick <= a.high {
					ticks = append(ticks, tick)
				}
			}
		}
		return ticks
	}
	step := math.Pow(10, math.Floor(math.Log10(a.high-a.low)))
	for _, factor := range []float64{0.1, 0.2, 0.5, 1} {
		if (a.high-a.low)/(step*factor) <= 10 {
			step *= factor
			break
		}
	}
	for i := math.Ceil(a.low / step); i*step <= a.high*1.0001; i++ {
		ticks = append(ticks, i*step)
	}
	return ticks
}

func label(tick float64) string { return fmt.Sprintf("%.6g", tick) }
