import { mount } from 'svelte';

import App from './App.svelte';
import { followTheme } from './theme';
import './style/tokens.css';
import './style/base.css';

followTheme();
const target = document.getElementById('app');
if (target) mount(App, { target });
