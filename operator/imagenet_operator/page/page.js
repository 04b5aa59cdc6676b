// Draws the charts of a page and filters its tables. The data are those of series.py. A page whose
// content has changed calls imagenetPage.update().
(() => {
  "use strict";
  let data;
  const measure = () => document.getElementById("measure").value;
  const KEPT = 4, VALUE = 5, HEIGHT = 280, FEW = 60;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const written = (value, unit) =>
    value === null ? "" : unit === "share" ? `${(100 * value).toFixed(2)} %`
      : `${value.toLocaleString("en", { maximumSignificantDigits: 5 })} ${unit}`;

  // The x and y of a line. Over time all points are drawn, else those that are kept; x rises.
  const line = (points, column) => {
    const xs = [], ys = [];
    for (const point of points) {
      const x = point[column];
      if (x === null || (column > 0 && !point[KEPT]) || x <= xs[xs.length - 1]) continue;
      xs.push(x);
      ys.push(point[VALUE]);
    }
    return [xs, ys];
  };

  const nearest = (values, index) => {
    for (let step = 0; step < values.length; step++) {
      for (const place of [index - step, index + step]) {
        if (values[place] !== null && values[place] !== undefined) return values[place];
      }
    }
    return null;
  };

  // What a chart has beside its points; another one is drawn from the beginning.
  const drawnAs = (chart) => JSON.stringify([measure(), data.measures[measure()],
    chart.series.map((series) => [series.label, series.colour])]);

  const draw = (chart) => {
    const box = document.getElementById(chart.name);
    const column = data.columns.indexOf(measure());
    const keys = [...box.previousElementSibling.querySelectorAll("li")];
    const lines = chart.series.map((series) => line(series.points, column));
    const ink = colour("--ink"), rule = colour("--rule");
    const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
    const share = chart.unit === "share";
    box.chart?.destroy();
    box.drawn = drawnAs(chart);
    box.chart = new uPlot({
      width: box.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      scales: { x: { time: false }, y: share ? { range: [0, 1] } : {} },
      axes: [
        { ...axis, label: data.measures[measure()], labelSize: 24 },
        { ...axis, size: 64,
          values: (_, ticks) => ticks.map((tick) => share ? `${Math.round(100 * tick)} %`
            : tick.toLocaleString("en")) },
      ],
      series: [{}, ...chart.series.map((series, number) => ({
        label: series.label,
        show: keys[number].querySelector("input").checked,
        stroke: colour(`--${series.colour}`),
        width: series.colour === "within" ? 1 : 2,
        spanGaps: true,
        points: { size: 6, show: (plot, place) => series.colour !== "within"
          && plot.data[place].filter((value) => value !== null && value !== undefined).length <= FEW },
      }))],
      hooks: {
        // Under the lines: where a later run begins.
        drawAxes: [(plot) => {
          const context = plot.ctx, { left, top, width, height } = plot.bbox;
          context.save();
          context.strokeStyle = colour("--restart");
          context.lineWidth = devicePixelRatio;
          context.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
          const now = data.columns.indexOf(measure());
          for (const restart of now < 2 ? data.restarts : []) {
            const x = plot.valToPos(restart[now], "x", true);
            if (x < left || x > left + width) continue;
            context.beginPath();
            context.moveTo(x, top);
            context.lineTo(x, top + height);
            context.stroke();
          }
          context.restore();
        }],
        setCursor: [(plot) => {
          const index = plot.cursor.idx;
          keys.forEach((key, number) => {
            const value = index === null || index === undefined
              ? null : nearest(plot.data[number + 1], index);
            key.querySelector("output").textContent = written(value, chart.unit);
          });
        }],
      },
    }, uPlot.join(lines), box);
  };

  const drawAll = () => data.charts.forEach(draw);

  // New points of a chart that is drawn; what was zoomed stays as it is.
  const append = (chart) => {
    const box = document.getElementById(chart.name), plot = box.chart;
    if (!plot || box.drawn !== drawnAs(chart)) {
      draw(chart);
      return;
    }
    const column = data.columns.indexOf(measure());
    const [xs] = plot.data, { min, max } = plot.scales.x;
    const isZoomed = min > xs[0] || max < xs[xs.length - 1];
    plot.setData(uPlot.join(chart.series.map((series) => line(series.points, column))), !isZoomed);
    if (isZoomed) plot.redraw();
  };

  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.chart && target.clientWidth && target.clientWidth !== target.chart.width) {
        target.chart.setSize({ width: target.clientWidth, height: HEIGHT });
      }
    }
  });

  const listen = (chart) => {
    const box = document.getElementById(chart.name);
    if (box.isHeard) return;
    box.isHeard = true;
    box.previousElementSibling.addEventListener("change", (event) => {
      const inputs = [...box.previousElementSibling.querySelectorAll("input")];
      box.chart.setSeries(inputs.indexOf(event.target) + 1, { show: event.target.checked });
    });
    box.addEventListener("keydown", (event) => {
      const plot = box.chart, last = plot.data[0].length - 1, now = plot.cursor.idx ?? -1;
      const index = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
      if (index === undefined) return;
      event.preventDefault();
      const place = Math.max(0, Math.min(last, index));
      plot.setCursor({ left: plot.valToPos(plot.data[0][place], "x"), top: 0 });
    });
    sizes.observe(box);
  };

  const filter = (field) => {
    const input = field.querySelector("input"), count = field.querySelector("output");
    const apply = () => {
      const rows = [...field.nextElementSibling.querySelectorAll("tbody tr")];
      const wanted = input.value.trim().toLowerCase();
      let shown = 0;
      for (const row of rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        shown += !row.hidden;
      }
      const all = `${rows.length.toLocaleString("en")} rows`;
      count.textContent = wanted ? `${shown.toLocaleString("en")} of ${all}` : all;
    };
    if (!field.isHeard) {
      field.isHeard = true;
      input.addEventListener("input", apply);
    }
    apply();
  };

  const update = () => {
    data = JSON.parse(document.getElementById("chart-data").textContent);
    data.charts.forEach(listen);
    data.charts.forEach(append);
    document.querySelectorAll(".filter").forEach(filter);
  };

  document.addEventListener("change", (event) => {
    if (event.target.id === "measure") drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  window.imagenetPage = { update };
  update();
})();
