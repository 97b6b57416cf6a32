package main

import "oncegate/policy/simulate"

type simulateCommand struct {
	configFile
	Scenario string `help:"One of ${scenarios}; all of them where none is named." placeholder:"NAME"`
	Format   string `help:"table, json, or csv: the load second by second, to plot." enum:"table,json,csv" default:"table"`
	Seed     uint64 `help:"Runs with the same one are the same." default:"1"`
}

func (c *simulateCommand) Run(in *invocation) error {
	chosen := simulate.Scenarios()
	if c.Scenario != "" {
		s, err := simulate.Named(c.Scenario)
		if err != nil {
			return usage{err}
		}
		chosen = []simulate.Scenario{s}
	}
	own, err := c.policies(in.env)
	if err != nil {
		return err
	}
	var results []simulated
	for _, s := range chosen {
		results = append(results, simulated{s, s.Run(own, c.Seed)})
		if c.Format == "table" { // each as it comes
			if err := writeTable(in.stdout, results[len(results)-1]); err != nil {
				return err
			}
		}
	}
	switch c.Format {
	case "json":
		return writeJSON(in.stdout, results, c.Seed)
	case "csv":
		return writeCSV(in.stdout, results)
	}
	return nil
}

// policies are those of the configuration's providers, each one once.
func (c *simulateCommand) policies(env []string) (own []simulate.Policy, err error) {
	conf, err := c.load(env, nil)
	if err != nil {
		return nil, err
	}
	for _, p := range conf.Providers {
		config := conf.PolicyOf(p)
		i := 0
		for i < len(own) && own[i].Config != config {
			i++
		}
		if i == len(own) {
			own = append(own, simulate.Policy{Name: "oncegate: " + p.Name, Config: config})
		} else {
			own[i].Name += ", " + p.Name
		}
	}
	if len(own) == 1 {
		own[0].Name = "oncegate"
	}
	return own, nil
}
