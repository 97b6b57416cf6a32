package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"oncegate/cache/report"
)

type reportCommand struct {
	adminFlag
	Since     string `help:"From when on: how long ago (24h, 7d), or a time by RFC 3339." default:"24h"`
	By        string `help:"Group by model, provider, operation, user, key, tool, outcome, reason or day." placeholder:"WHAT"`
	Format    string `help:"table, json or csv." default:"table" enum:"table,json,csv"`
	Monthly   int64  `help:"What if: so many requests a month..." placeholder:"N"`
	RetryRate string `help:"...of which so many are asked for twice: 0.1 or 10%." placeholder:"R"`
}

func (c *reportCommand) Run(in *invocation) error {
	by, err := report.ParseBy(c.By)
	if err != nil {
		return usage{fmt.Errorf("--%w", err)}
	}
	if _, err := report.ParseTime(c.Since, time.Now()); err != nil {
		return usage{fmt.Errorf("--since is %w", err)}
	}
	query := url.Values{"since": {c.Since}}
	if by != "" {
		query.Set("by", string(by))
	}
	monthly, rate, err := c.whatIf()
	if err != nil {
		return usage{err}
	}
	if c.Format != "table" && monthly == 0 {
		query.Set("format", c.Format)
	}
	if monthly > 0 && c.Format == "json" {
		query.Set("monthly", strconv.FormatInt(monthly, 10))
		query.Set("retry_rate", strconv.FormatFloat(rate, 'g', -1, 64))
	}
	body, err := c.get(in, "api/report", query, time.Minute)
	if err != nil {
		return err
	}
	if c.Format != "table" {
		if c.Format == "json" {
			body = append(body, '\n')
		}
		_, err = in.stdout.Write(body)
		return err
	}
	var r report.Report
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("what the gateway answered is no report: %w", err)
	}
	if err := r.Table(in.stdout); err != nil || monthly == 0 {
		return err
	}
	return r.WhatIf(monthly, rate).Table(in.stdout)
}

// whatIf reads the two flags that go together; 0 without them.
func (c *reportCommand) whatIf() (monthly int64, rate float64, err error) {
	if c.Monthly == 0 && c.RetryRate == "" {
		return 0, 0, nil
	}
	if c.Monthly < 1 || c.RetryRate == "" {
		return 0, 0, fmt.Errorf("--monthly and --retry-rate go together: --monthly 1000000 --retry-rate 10%%")
	}
	number, percent := strings.CutSuffix(c.RetryRate, "%")
	if rate, err = strconv.ParseFloat(number, 64); percent {
		rate /= 100
	}
	if err != nil || !(rate >= 0 && rate <= 1) {
		return 0, 0, fmt.Errorf("--retry-rate %q is not a part of all requests: write it as 0.1 or 10%%", c.RetryRate)
	}
	if c.Format == "csv" {
		return 0, 0, fmt.Errorf("--monthly is for table and json: a CSV has one table")
	}
	return c.Monthly, rate, nil
}
