/* Draws each [data-chart]="id of its JSON" with uPlot; the table below it says the same. */
"use strict";
(() => {
  const COLOURS = ["--line-1", "--line-2", "--line-3"];
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
  const money = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 4 });
  const seconds = (value) => (value < 1 ? `${Math.round(value * 1000)} ms` : `${+value.toFixed(2)} s`);
  const WRITERS = { count: (value) => short.format(value), seconds, money: (value) => money.format(value) };

  /* Of a day the year is left out, of a month it is cut short. */
  const tick = (label) => label.replace(/^(\w{3} \d{2} \w{3}) \d{4}$/, "$1").replace(/^(\w{3})\w* (\d{4})$/, "$1 $2");

  /* Where there are many, only those points that no line leads to or from. */
  const shown = (chart, number, show) => {
    if (!show || chart.labels.length < 40) return null;
    const values = chart.lines[number - 1].values;
    return values.flatMap((one, at) => (one != null && values[at - 1] == null && values[at + 1] == null ? [at] : []));
  };

  const draw = (place) => {
    const chart = JSON.parse(document.getElementById(place.dataset.chart).textContent);
    const write = (value) => (value == null ? "–" : WRITERS[chart.unit](value));
    const isBars = chart.kind === "bars";
    const axis = { stroke: style("--quiet"), grid: { stroke: style("--border"), width: 1 }, ticks: { show: false } };
    const options = {
      width: Math.max(place.clientWidth, 200),
      height: 220,
      cursor: { y: false },
      scales: {
        x: { time: false, range: (_, low, high) => [low - 0.5, high + 0.5] },
        y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] },
      },
      axes: [
        {
          ...axis,
          space: 90,
          incrs: [1, 2, 3, 4, 6, 7, 12, 14, 24, 28],
          values: (_, splits) => splits.map((at) => tick(chart.labels[at] ?? "")),
        },
        { ...axis, size: 60, values: (_, splits) => splits.map(write) },
      ],
      series: [
        { label: "From", value: (_, at) => chart.labels[at] ?? "–" },
        ...chart.lines.map((line, number) => ({
          label: line.title,
          stroke: style(COLOURS[number]),
          fill: isBars ? style(COLOURS[number]) : undefined,
          width: isBars ? 0 : 2,
          paths: isBars ? uPlot.paths.bars({ size: [0.7, 60] }) : undefined,
          points: { show: !isBars, size: 5, filter: (_, number, show) => shown(chart, number, show) },
          spanGaps: false,
          value: (_, value) => write(value),
        })),
      ],
    };
    place.replaceChildren();
    new uPlot(options, [chart.labels.map((_, at) => at), ...chart.lines.map((line) => line.values)], place);
  };

  const drawAll = () => document.querySelectorAll("[data-chart]").forEach(draw);
  let waiting = 0;
  const later = () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(drawAll);
  };
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) later();
    width = window.innerWidth;
  });
  document.addEventListener("skippy:theme", later);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
  drawAll();
})();
