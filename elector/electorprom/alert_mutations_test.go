package electorprom_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mutationsOf are a rule's plausible mistakes, by what is wrong.
func mutationsOf(r rule) map[string]rule {
	all := map[string]rule{}
	replace := func(what string, from, until int, to string) {
		m := r
		if m.Expr = r.Expr[:from] + to + r.Expr[until:]; m.Expr != r.Expr {
			all[fmt.Sprintf("%s %q at %d as %q", what, r.Expr[from:until], from, to)] = m
		}
	}
	// Each place that the group of re matches is replaced on its own.
	each := func(what string, re string, to ...func(string) string) {
		for _, at := range regexp.MustCompile(re).FindAllStringSubmatchIndex(r.Expr, -1) {
			for _, f := range to {
				replace(what, at[2], at[3], f(r.Expr[at[2]:at[3]]))
			}
		}
	}
	nothing := func(string) string { return "" }
	each("the comparison", ` (==|<=|>=|<|>) `, opposite, withOrWithoutEqual)
	each("the number", `[ (](\d+(?:\.\d+)?)\b`, func(s string) string { return scaled(s, 0.8) }, func(s string) string { return scaled(s, 1.2) })
	each("the range", `\[(\w+)\]`, func(s string) string { return times(s, 0.5) }, func(s string) string { return times(s, 2) })
	each("the matcher", `(\{[^}]+\})`, nothing)
	each("the alternative", `"(\w+\|)\w+"`, nothing)
	each("the alternative", `"\w+(\|\w+)"`, nothing)
	for _, at := range regexp.MustCompile(`(?:by|on) \((\w[^)]*)\)`).FindAllStringSubmatchIndex(r.Expr, -1) {
		labels := strings.Split(r.Expr[at[2]:at[3]], ", ")
		for i := range labels {
			replace("the labels", at[2], at[3], strings.Join(slices.Delete(slices.Clone(labels), i, i+1), ", "))
		}
	}
	for _, at := range regexp.MustCompile(` (?:unless|and|or) `).FindAllStringIndex(r.Expr, -1) {
		replace("the condition", at[0], at[1]+endOfOperand(r.Expr[at[1]:]), "")
	}
	for _, by := range []float64{0.5, 2} {
		m := r
		if m.For = "5m"; r.For != "" {
			m.For = times(r.For, by)
		}
		all["for: "+m.For] = m
	}
	return all
}

// endOfOperand is where the right operand of a set operator ends, at the beginning of expr.
func endOfOperand(expr string) int {
	depth := 0
	for i, c := range expr {
		switch rest := expr[i:]; {
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth < 0 {
				return i
			}
		case depth == 0 && (strings.HasPrefix(rest, " unless ") || strings.HasPrefix(rest, " and ") || strings.HasPrefix(rest, " or ")):
			return i
		}
	}
	return len(expr)
}

func opposite(op string) string {
	return map[string]string{"==": "!=", "<": ">", ">": "<", "<=": ">", ">=": "<"}[op]
}

func withOrWithoutEqual(op string) string {
	return map[string]string{"==": "==", "<": "<=", ">": ">=", "<=": "<", ">=": ">"}[op]
}

// scaled is a number times a factor, which changes an integer by 1 at least.
func scaled(number string, by float64) string {
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		panic(err)
	}
	to := n * by
	switch {
	case strings.Contains(number, "."):
	case by < 1:
		to = min(to, n-1)
	default:
		to = max(to, n+1)
	}
	return strconv.FormatFloat(to, 'f', -1, 64)
}

func times(duration string, by float64) string {
	d, err := time.ParseDuration(strings.Replace(duration, "1d", "24h", 1))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()*by))
}
